"""Rules: what is claimed of each allocation, with its formula and source."""
