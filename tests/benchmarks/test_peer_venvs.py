"""Each peer has an environment of its own, made from pinned versions, and made anew only when the pins change."""

import re
import sys
from pathlib import Path

import pytest

from benchmarks.peers import venvs
from benchmarks.peers.catalogue import OURS, PEERS, Entry
from benchmarks.peers.errors import PeerFailed

DRIVERS = Path(venvs.__file__).parent / "drivers"
ENTRY = Entry(name="some-queue", module="some_queue")
PINNED = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[A-Za-z0-9.!+]+")


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The requirements of ENTRY: nothing, which is installed without asking anybody."""
    monkeypatch.setattr(venvs, "ROOT", tmp_path)
    monkeypatch.setattr(venvs, "VENVS", tmp_path / "venvs")
    monkeypatch.setattr(venvs, "REQUIREMENTS", tmp_path)
    path = tmp_path / "some_queue.txt"
    path.write_text("# nothing\n")
    return path


def test_an_environment_is_made_once_and_again_when_the_pins_change(
    pins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []

    def install(entry: Entry, base: str, folder: Path, pins: Path) -> None:
        folder.mkdir(exist_ok=True)
        made.append(folder)

    monkeypatch.setattr(venvs, "_install", install)

    python = venvs.interpreter(ENTRY)
    venvs.interpreter(ENTRY)
    assert len(made) == 1
    pins.write_text("# something\n")
    venvs.interpreter(ENTRY)

    assert len(made) == 2
    assert python == made[0] / "bin" / "python"


def test_what_pip_says_last_is_the_reason_of_a_peer_that_cannot_be_installed() -> None:
    complaint = "import sys; sys.exit('WARNING: slow\\nERROR: no matching distribution\\n[notice] a newer pip')"

    with pytest.raises(PeerFailed, match=r"not installed: ERROR: no matching distribution$"):
        venvs._run(ENTRY, sys.executable, "-c", complaint)


def test_a_peer_that_needs_a_newer_python_than_there_is_says_so(pins: Path) -> None:
    with pytest.raises(PeerFailed, match=r"needs Python 3\.90 or newer"):
        venvs.interpreter(Entry(name="some-queue", module="some_queue", python=(3, 90)))


def test_ours_runs_in_this_environment() -> None:
    assert venvs.interpreter(PEERS[OURS]) == Path(sys.executable)


@pytest.mark.parametrize("entry", PEERS.values(), ids=lambda entry: entry.name)
def test_every_peer_has_a_driver_and_pins_every_version(entry: Entry) -> None:
    assert (DRIVERS / f"{entry.module}.py").is_file()
    if entry.name != OURS:
        lines = (venvs.REQUIREMENTS / f"{entry.module}.txt").read_text().splitlines()
        assert [line for line in lines if not line.startswith("#") and not PINNED.fullmatch(line)] == []
        assert lines
