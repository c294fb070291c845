"""The page without a browser: what it remembers, what a message changes, and what is shown for it."""
