"""Faces of an estimate, as pure strings and plain data: text, SVG, HTML and JSON."""
