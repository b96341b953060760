"""A database engine of the project's own, as PostGIS or a token-fetching one would be."""
