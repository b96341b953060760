"""Handlers that cost something: by their own word, in their result, or by the price list."""

import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group
from django.db import transaction

from jobqueue import MB, Backoff, Snooze, job

from .effects import record

QUICK = Backoff(base=0.05, cap=0.1)
BURN = "import time\nwhile time.process_time() < {}: pass"


@job("probe.keeps_spending", max_attempts=2, backoff=QUICK)
def keeps_spending(context: Any, *, each: str, every: float, seconds: float) -> None:
    """Report a cost every so often, and write down that it was reported; from the second attempt on do nothing."""
    if context.attempt > 1:
        return
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        context.add_cost("llm", Decimal(each))
        record(context, "spent", each)
        time.sleep(every)


@job("probe.spends_often")
def spends_often(context: Any, *, times: int) -> None:
    """Report very many very small costs, and one refund."""
    for number in range(times):
        context.add_cost(("llm", "ocr")[number % 2], Decimal("0.000001"))
    context.add_cost("llm", Decimal("-0.5"))


@job("probe.returns")
def returns(context: Any, *, value: Any) -> Any:
    """Return the value."""
    return value


@job("probe.works", max_attempts=2, backoff=QUICK, aliases=["probe.works_of_old"])
def works(context: Any, *, cpu: float = 0, mb: int = 0, how: str = "done", **_: Any) -> None:
    """Hold memory, burn CPU time here or in a program, report nothing, and end in one of many ways."""
    held = b"x" * (mb * MB)
    if how == "program":
        subprocess.run([sys.executable, "-c", BURN.format(cpu)], check=True)
    else:
        start = time.process_time()
        while time.process_time() - start < cpu:
            pass
    record(context, "worked", len(held))
    if how == "fail":
        raise RuntimeError("after work")
    if how == "hang":
        time.sleep(30)
    if how == "die":
        time.sleep(0.2)  # long enough to be looked at
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "snooze" and not Group.objects.filter(name="snoozed").exists():
        Group.objects.create(name="snoozed")
        raise Snooze(0.1)
    if how == "complete":
        with transaction.atomic():
            context.complete()
    if how == "free":
        context.add_cost("gift", 0)
