"""What runs print of memory, found in logs, beside a prediction."""
