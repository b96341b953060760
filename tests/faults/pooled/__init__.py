"""Everything through PgBouncer in transaction mode: the test process as the web side, and all workers."""
