"""How memcore is used: the command line, the page, and what both render."""
