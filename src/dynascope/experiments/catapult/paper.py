"""The document that these experiments come from."""

PAPER = "Toward Understanding the Dynamics of Over-parameterized Neural Networks"
