"""Gradient descent with a learning rate above 2/sharpness: it oscillates and stays bounded."""
