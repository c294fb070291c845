"""Every text of the page, in two languages."""
