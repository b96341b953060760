"""Commands of the example project."""
