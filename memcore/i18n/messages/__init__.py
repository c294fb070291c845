"""What is said when something is wrong, missing or was taken from elsewhere, in Chinese; loaded when one is said."""
