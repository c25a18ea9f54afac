"""dynascope: watch a network learn, beside what the mathematics predicts."""

__version__ = "0.1.0"
