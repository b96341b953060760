"""The tables of jobqueue: jobs, attempts that did not end well, workers, statistics, costs and people's actions."""

from .action import Action
from .attempt import Attempt
from .console import DeadLetter, StuckJob
from .figures import Cost, Stat
from .job import Job
from .worker import Worker

__all__ = ["Action", "Attempt", "Cost", "DeadLetter", "Job", "Stat", "StuckJob", "Worker"]
