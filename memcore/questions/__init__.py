"""What people ask of estimates: changes, layouts, limits, logs, costs."""
