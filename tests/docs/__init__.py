"""The documentation: complete, without dead links, and its examples run."""
