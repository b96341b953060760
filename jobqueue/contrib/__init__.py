"""Ways from other queues to this one: apps for the time of a move, each of use without the others."""
