"""How the hot statements are planned on a table that is full: the index by name, few rows touched."""
