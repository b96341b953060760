"""The types of the fixtures, for annotations."""

from collections.abc import Callable
from typing import Any

from jobqueue.models import Job
from jobqueue.states import Status

from .launching import RunningWorker

Launch = Callable[..., RunningWorker]
Enqueue = Callable[..., Job]
WaitFor = Callable[..., Any]  # a Job whose nullable columns the test knows to be filled
StatusOf = Callable[[Job], Status]
Terminate = Callable[..., int]
