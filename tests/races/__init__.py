"""Two connections in lock-step, and crowds: what holds when several change the same rows."""
