"""Gradient descent with a learning rate above 2/sharpness, where it oscillates and stays bounded."""
