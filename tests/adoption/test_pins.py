"""The demo is installed from pinned files whose hashes are written down, at the versions that the tests ran with."""

import re
from configparser import ConfigParser

from tests.adoption.building import ROOT
from tests.adoption.pinning import DEMO, pins, section

REQUIREMENTS = ROOT / "requirements.txt"


def entries() -> list[str]:
    """Return each package of the file with the lines of its hashes."""
    lines = [line for line in DEMO.read_text().splitlines() if not line.startswith("#")]
    return "\n".join(lines).replace("\\\n", "").splitlines()


def test_every_package_of_the_demo_has_hashes_and_nothing_but_hashes() -> None:
    pattern = re.compile(r"[\w.-]+==[\w.]+( ;.*?)?( +--hash=sha256:[0-9a-f]{64})+")

    assert [entry for entry in entries() if not pattern.fullmatch(entry)] == []


def test_the_demo_runs_with_the_versions_that_the_tests_run_with() -> None:
    tested, demo = pins(REQUIREMENTS.read_text()), pins(DEMO.read_text())

    # psycopg's binary build is the extra of a line of requirements.txt.
    tested["psycopg-binary"] = tested["psycopg"]
    assert {name: version for name, version in demo.items() if tested.get(name) != version} == {}


def test_the_demo_has_all_that_the_project_runs_with() -> None:
    running = pins("\n".join(section("Running")))

    assert len(running) > 10
    assert running.keys() - pins(DEMO.read_text()).keys() == set()


def test_the_extra_demo_names_all_that_the_project_runs_with() -> None:
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"]
    [chosen] = re.findall(r"jobqueue\[(.+)\]", extras["demo"])
    lines = [*config["options"]["install_requires"].split(), *extras["demo"].split()]
    for extra in chosen.split(","):
        lines += extras[extra].split()

    named = pins("\n".join(line.replace(">=", "==") for line in lines))

    assert pins("\n".join(section("Running"))).keys() - named.keys() == set()
