"""The manager against a small model of it, step by step and two by two."""
