"""The pages of the Django admin, a module each; importing them registers them.

Everything is rendered on the server with the admin's own theme. No page changes anything by GET, every action asks for
its permission on the server and goes through jobqueue.operations, and no page counts or sorts a whole table.
"""

from . import alerts, attempts, audit, costs, dead_letters, incidents, jobs, queues, stuck, workers

__all__ = ["alerts", "attempts", "audit", "costs", "dead_letters", "incidents", "jobs", "queues", "stuck", "workers"]
