"""Grokking on modular addition: a network fits its training sums, and much later knows the others."""
