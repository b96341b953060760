"""What people do to jobs through jobqueue.operations: permitted, audited, in batches, fenced."""
