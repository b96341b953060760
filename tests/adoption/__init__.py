"""What a project meets that adds jobqueue: the files that pip installs, what they need, and what they must not."""
