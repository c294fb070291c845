"""From what somebody wants and has to complete configs that fit: rows of knowledge, composed by a search."""
