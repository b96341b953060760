"""Housekeeping that any number of workers do at once, without a leader: small batches that step over locked rows.

One service a file, each of one shape: made with a way to run SQL, run_once() returns what it did, as counts.
"""
