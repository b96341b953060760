"""The types of the fixtures, for annotations."""

from collections.abc import Callable

from jobqueue.models import Job
from jobqueue.states import Status

from .launching import RunningWorker

Launch = Callable[..., RunningWorker]
Enqueue = Callable[..., Job]
WaitFor = Callable[..., Job]
StatusOf = Callable[[Job], Status]
Terminate = Callable[..., int]
