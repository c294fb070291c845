"""What to change: tables of knobs, tools' own words, and the answer."""
