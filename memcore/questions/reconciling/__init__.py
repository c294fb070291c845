"""What runs print about memory, found in logs and compared with a prediction."""
