"""The document of these experiments."""

PAPER = "Simple structures in neural networks: on expressiveness, optimization and data distribution"
