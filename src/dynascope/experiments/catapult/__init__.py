"""Catapults: training beyond the critical learning rate, in quadratic models and networks."""
