"""Feature learning: the input directions that a network depends on, and the effect of catapults on them."""
