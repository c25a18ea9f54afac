"""Figures: the look and the few shared forms that experiments draw with."""
