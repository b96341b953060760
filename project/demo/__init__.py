"""The demo: several hundred real jobs, a worker, a partner that is down at first, and the admin. See __main__.py."""
