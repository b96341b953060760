"""The worker: a supervisor that claims, hands out, renews and settles, and never runs the project's handlers itself."""
