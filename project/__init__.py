"""Example project: settings from the environment, and apps whose jobs do real work on real files."""
