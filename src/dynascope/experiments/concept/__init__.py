"""Concept learning: structured identity mapping, its order, its transients and its theory."""
