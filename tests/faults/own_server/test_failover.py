"""The primary is lost under load, its synchronous standby is promoted, and nobody is told but the DSN's two hosts."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from django.db import connection

from jobqueue.models import Job
from jobqueue.states import Status
from project.postgres import DATABASE, SUPERUSER
from tests.faults.measured import Recovery
from tests.faults.namespaces import Host, HostServer, are_possible, network
from tests.faults.servers import PrivateServer, new_home
from tests.faults.tools import missing
from tests.worker.effects import Effects
from tests.worker.kinds import Launch
from tests.worker.test_outcomes import finished
from tests.worker.waiting import until

from .load import account, loaded

LEASE_SECONDS = 30
# What a web process needs to notice a host that is gone without a word.
OPTIONS = {
    "target_session_attrs": "read-write",
    "connect_timeout": "3",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
}


class Cluster:
    """A primary and its synchronous standby, each on its own host where there are such."""

    def __init__(self, primary: PrivateServer, standby: PrivateServer, host: Host | None) -> None:
        self.primary, self.standby, self._host = primary, standby, host

    @property
    def url(self) -> str:
        """The URL that names both."""
        hosts = ",".join(f"{server.address}:{server.port}" for server in (self.primary, self.standby))
        options = "&".join(f"{name}={value}" for name, value in OPTIONS.items())
        return f"postgresql://{SUPERUSER}:{self.primary.password}@{hosts}/{DATABASE}?{options}"

    def wait_until_synchronous(self) -> None:
        """Have commits wait for the standby from now on."""
        self.primary.set(synchronous_standby_names="standby")
        state = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        until(lambda: self.primary.execute(state), what="a synchronous standby")

    def lose_primary(self, how: str) -> None:
        """Kill it, or cut it off from everybody."""
        if how == "killed":
            self.primary.kill()
        elif self._host is None:
            missing("only a host of its own can be cut off: network namespaces are not possible here")
        else:
            self._host.unplug()

    @contextmanager
    def enqueued_to(self) -> Iterator[None]:
        """Have this process, and threads that it starts, use both hosts as well; afterwards the standby alone."""
        before = {name: connection.settings_dict[name] for name in ("HOST", "PORT", "OPTIONS")}
        servers = (self.primary, self.standby)
        both = {
            name: ",".join(str(value) for value in values)
            for name, values in (
                ("HOST", [server.address for server in servers]),
                ("PORT", [server.port for server in servers]),
            )
        }
        connection.close()
        connection.settings_dict.update(both, OPTIONS={**before["OPTIONS"], **OPTIONS})
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict.update(before, HOST=self.standby.address, PORT=str(self.standby.port))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return a primary and a standby of its own, on two hosts or, where that is impossible, on two ports."""
    with ExitStack() as stack:
        if are_possible():
            hosts = stack.enter_context(network(2))
            primary: PrivateServer = HostServer(new_home(), hosts[0])
            standby: PrivateServer = HostServer(new_home(), hosts[1])
        else:
            if os.environ.get("CI") == "true":
                missing("network namespaces are not possible here")
            hosts = []
            primary, standby = PrivateServer(new_home()), PrivateServer(new_home())
        for server in (primary, standby):
            stack.callback(server.destroy)
        primary.create().copy_to(standby, name="standby")
        yield Cluster(primary, standby, hosts[0] if hosts else None)


@pytest.fixture
def server(cluster: Cluster) -> PrivateServer:
    """Return the primary, to which this process is connected at first."""
    return cluster.primary


def orm_jobs() -> list[Job]:
    """Enqueue jobs whose handlers use Django's connection."""
    return [job for job in Job.objects.enqueue_many([("probe.orm", {})] * 8) if job]


@pytest.mark.parametrize("how", ["killed", "cut off"])
def test_workers_follow_to_the_promoted_standby(
    launch: Launch, effects: Effects, cluster: Cluster, recovery: Recovery, how: str
) -> None:
    """C25, failover: every acknowledged job is DONE, every run is accounted for, workers go on by themselves."""
    cluster.wait_until_synchronous()
    workers = [
        launch("--processes", "2", LEASE_SECONDS=LEASE_SECONDS, env={"DATABASE_URL": cluster.url}) for _ in range(2)
    ]
    with cluster.enqueued_to():
        using_the_orm = finished(orm_jobs())  # so that handlers have connections to lose
        connection.close()  # this process's own is nobody's concern here
        with loaded() as load:
            cluster.lose_primary(how)
            before = len(load.accepted)
            cluster.standby.promote()
            promoted_at = time.monotonic()
            first = cluster.standby.execute("SELECT max(finished_at) FROM jobqueue_job")[0][0]
            until(
                lambda: cluster.standby.execute("SELECT max(finished_at) FROM jobqueue_job")[0][0] != first,
                within=60,
                what=lambda: workers[0].log[-3000:],
            )
            recovery(f"first job done after a promotion, the primary {how}", time.monotonic() - promoted_at, within=20)
            load.goes_on(within=30)
            using_the_orm += finished(orm_jobs(), within=30)

    assert len(load.accepted) > before > 0
    account(load, effects=effects, other=using_the_orm)
    assert not Job.objects.filter(status=Status.RUNNING).exists()
    assert all(worker.code is None for worker in workers)
