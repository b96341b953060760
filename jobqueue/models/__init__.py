"""The tables of jobqueue: jobs, attempts, workers, queues; statistics, costs, budgets, counters; alerts; actions."""

from .action import Action
from .alerts import AlertRule, Incident, Tick
from .attempt import Attempt
from .budget import Budget
from .console import DeadLetter, StuckJob
from .figures import Cost, Counter, Stat
from .host import Host
from .job import Job
from .queue import Queue
from .worker import Worker

__all__ = [
    "Action",
    "AlertRule",
    "Attempt",
    "Budget",
    "Cost",
    "Counter",
    "DeadLetter",
    "Host",
    "Incident",
    "Job",
    "Queue",
    "Stat",
    "StuckJob",
    "Tick",
    "Worker",
]
