"""Transition to linearity: wide networks are nearly linear in their weights, and where they are not."""
