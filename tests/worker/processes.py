"""Processes as /proc shows them: who is whose child, who is left, who is a zombie."""

import contextlib
import os
import signal
from pathlib import Path


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat behind the name: state, parent, process group, session ...; gone: []."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in "ZX"


def children(pid: int) -> list[int]:
    """Return the processes whose parent is the given one, zombies included, oldest first."""
    return sorted(other for other in all_pids() if stat_fields(other)[1:2] == [str(pid)])


def all_pids() -> list[int]:
    """Return every process."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def marked(mark: str) -> list[int]:
    """Return the living processes in whose environment the mark stands."""
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{pid}/environ").read_bytes() and is_alive(pid):
                found.append(pid)
    return found


def zombies(parents: list[int]) -> list[int]:
    """Return the dead processes that these have not reaped."""
    found = []
    for pid in all_pids():
        fields = stat_fields(pid)
        if fields and fields[0] == "Z" and int(fields[1]) in parents:
            found.append(pid)
    return found


def command_line(pid: int) -> str:
    """Return a process's command line; gone: ''."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    return ""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process; gone: 0."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0.0


def socket_inodes(pid: int) -> set[str]:
    """Return the inodes of the sockets that a process has open."""
    found = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def server_inodes(port: int) -> set[str]:
    """Return the inodes of this machine's TCP sockets that are connected to the port."""
    found = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if int(fields[2].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def send(pid: int, number: int) -> None:
    """Signal one process; gone is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill(pid: int) -> None:
    """Kill one process, as the kernel does when memory runs out."""
    send(pid, signal.SIGKILL)
