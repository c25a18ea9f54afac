"""Theory: closed forms, recursions and bounds, with the names of what is measured."""
