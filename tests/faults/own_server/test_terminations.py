"""Single connections of a worker are ended by an administrator, again and again."""

import random

from jobqueue.models import Attempt
from tests.faults.measured import Recovery
from tests.faults.servers import PrivateServer
from tests.worker.effects import Effects
from tests.worker.kinds import Launch
from tests.worker.waiting import until

from .load import account, loaded

ROLES = ("dispatch", "settle", "lease", "maintenance", "listener", "child")
TIMES = 5
BACK_WITHIN = {"lease": 8}  # which says something once in a sixth of the lease
USUALLY_BACK_WITHIN = 5
END = "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
OPEN = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE %s AND pid <> ALL (%s)"


def test_ended_connections_of_every_kind_come_back_and_no_job_is_lost(
    server: PrivateServer, launch: Launch, effects: Effects, recovery: Recovery
) -> None:
    """C25: five times each, in any order, under load; what an ended connection carried is done all the same."""
    worker = launch("--processes", "2", LEASE_SECONDS=20)
    order = [role for role in ROLES for _ in range(TIMES)]
    random.shuffle(order)
    slowest = dict.fromkeys(ROLES, 0.0)

    with loaded() as load, loaded("probe.orm", every=0.05) as orm:
        for role in order:
            name = f"jobqueue {role} %"
            ended = [pid for pid, _ in until(lambda: server.execute(END, [name]), within=10, what=name)]  # noqa: B023
            ended_at = until(lambda: server.execute("SELECT clock_timestamp()"))[0][0]
            until(lambda: server.execute(OPEN, [name, ended]), within=15, what=f"{name} again, after {order}")  # noqa: B023
            took = (server.execute("SELECT clock_timestamp()")[0][0] - ended_at).total_seconds()
            slowest[role] = max(slowest[role], took)
        load.goes_on()

    for role, seconds in slowest.items():
        recovery(f"{role}: connected again, at worst", seconds, within=BACK_WITHIN.get(role, USUALLY_BACK_WITHIN))
    assert (load.errors, orm.errors) == ([], [])
    account(load, orm, effects=effects)
    assert worker.code is None
    assert effects.count("start") == len(load.accepted)
    # Only handlers whose own connection was ended have failed, each once.
    assert set(Attempt.objects.values_list("error_class", flat=True)) <= {"django.db.utils.OperationalError"}
