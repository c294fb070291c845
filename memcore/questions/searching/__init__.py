"""Many layouts of one job: which fit, and which of these cost least."""
