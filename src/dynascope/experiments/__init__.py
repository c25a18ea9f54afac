"""Experiments: a file per phenomenon."""
