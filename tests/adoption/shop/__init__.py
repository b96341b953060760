"""The app of a project that adds jobqueue; scratch.py copies it there, so it knows nothing of this repository."""
