"""A step: its recipe, its recording, and the program that comes out."""
