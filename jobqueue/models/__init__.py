"""The tables of jobqueue: jobs, attempts, workers, queues; statistics, costs, budgets, counters; alerts; actions."""

from .action import Action
from .alerts import AlertRule, Incident, Tick
from .attempt import Attempt
from .budget import Budget
from .console import DeadLetter, StuckJob
from .figures import Cost, Counter, Stat
from .group import GroupNote
from .host import Host
from .job import Job
from .order import Order
from .queue import Queue
from .release import Release
from .worker import Worker

__all__ = [
    "Action",
    "AlertRule",
    "Attempt",
    "Budget",
    "Cost",
    "Counter",
    "DeadLetter",
    "GroupNote",
    "Host",
    "Incident",
    "Job",
    "Order",
    "Queue",
    "Release",
    "Stat",
    "StuckJob",
    "Tick",
    "Worker",
]
