"""The document of these experiments."""

PAPER = "Transformers learn through gradual rank increase"
