"""Feature learning: which directions of the input a network depends on, and whether catapults improve them."""
