"""Scenarios whose fault is the server's: each has a private PostgreSQL that it may stop, kill and fill up."""
