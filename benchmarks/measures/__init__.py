"""A file a benchmark: each returns the figures of its rows."""
