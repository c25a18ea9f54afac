"""Transition to linearity: wide networks are nearly linear in their weights, with exceptions."""
