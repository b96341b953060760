"""Hosts of a scenario's own: network namespaces on one bridge, made and removed by root, unplugged at will."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from project.postgres_programs import account
from tests.faults.servers import PrivateServer
from tests.faults.tools import need

PORT = 5432


def ip(*arguments: str, check: bool = True) -> bool:
    """Run `ip`; returns whether it did as told."""
    done = subprocess.run([need("ip"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.returncode == 0


def are_possible() -> bool:
    """Tell whether this machine lets us make network namespaces and bridges."""
    name = f"jq{os.getpid()}t"
    if os.geteuid() != 0:
        return False
    made = ip("netns", "add", name, check=False) and ip("link", "add", name, "type", "bridge", check=False)
    ip("link", "del", name, check=False)
    ip("netns", "del", name, check=False)
    return made


class Host:
    """One namespace with one cable."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self._cable = f"{name}c"

    def make(self, bridge: str) -> None:
        """Make it and plug it in."""
        ip("netns", "add", self.name)
        ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        ip("link", "set", self._cable, "master", bridge, "up")
        ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            ip("-n", self.name, "link", "set", device, "up")

    def unplug(self) -> None:
        """Pull the cable: nobody is told, nothing comes through."""
        ip("link", "set", self._cable, "down")

    def remove(self) -> None:
        """Remove it and its cable."""
        ip("link", "del", self._cable, check=False)
        ip("netns", "del", self.name, check=False)


@contextmanager
def network(hosts: int) -> Iterator[list[Host]]:
    """Give so many hosts that reach each other and this one."""
    name, subnet = f"jq{os.getpid()}", f"198.18.{os.getpid() % 256}"  # a range that is set aside for tests
    made = [Host(f"{name}h{number}", f"{subnet}.{number + 10}") for number in range(hosts)]
    try:
        ip("link", "add", name, "type", "bridge")
        ip("addr", "add", f"{subnet}.1/24", "dev", name)
        ip("link", "set", name, "up")
        for host in made:
            host.make(name)
        yield made
    finally:
        for host in made:
            host.remove()
        ip("link", "del", name, check=False)


class HostServer(PrivateServer):
    """A private server that runs on a host of its own, where it has the usual port."""

    def __init__(self, home: Path, host: Host, *, config: Mapping[str, str] | None = None) -> None:
        super().__init__(home, version=15, config=config)  # the one whose programs every account can reach
        self.host, self.address = host, host.address

    def _prepare_home(self) -> None:
        super()._prepare_home()
        (self.home / "port").write_text(f"{PORT}\n")

    def _create_data(self) -> None:
        super()._create_data()
        with (self.data / "pg_hba.conf").open("a") as access:
            access.write("host all all samenet scram-sha-256\nhost replication all samenet scram-sha-256\n")

    def _start_on(self, port: int) -> "subprocess.CompletedProcess[bytes]":
        options = f"-c listen_addresses={self.address} -c port={port} -c unix_socket_directories="
        return self._pg_ctl("start", "-l", str(self.log), "-o", options)

    def _run(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        nobody = account()
        assert self.programs_folder is not None
        return subprocess.run(
            [
                *(need("ip"), "netns", "exec", self.host.name),
                *("setpriv", f"--reuid={nobody['user']}", f"--regid={nobody['group']}", "--clear-groups"),
                *(str(self.programs_folder / program), *arguments),
            ],
            cwd=self.home,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
