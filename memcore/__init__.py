"""How much GPU memory a training job takes, at every moment of a step, and because of which tensors."""

__version__ = "0.1.0"
