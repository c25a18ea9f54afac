"""Which directions of the input a network listens to, and whether catapults teach it."""
