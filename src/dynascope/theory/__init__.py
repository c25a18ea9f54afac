"""What the mathematics predicts: closed forms, recursions and bounds, one module per idea."""
