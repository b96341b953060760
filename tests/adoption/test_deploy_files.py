"""The files of docs/deploy fit the code: their times, options, addresses, variables and metrics."""

import configparser
import re
import shlex
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobqueue import conf
from jobqueue.management.commands.jobqueue_worker import Command
from jobqueue.models import Job
from project.environment import jobqueue_settings
from tests.connections import database_conninfo
from tests.docs.pages import blocks, rows
from tests.factories import JobFactory
from tests.worker.conftest import check_all, workers_below
from tests.worker.launching import DOCUMENTED_CODES
from tests.worker.waiting import until

DOCS = Path(__file__).resolve().parents[2] / "docs"
DEPLOY = DOCS / "deploy"
#: docs/guarantees.md: of a stop, beside SHUTDOWN_TIMEOUT and KILL_GRACE; a test of the worker holds it to that.
STOP_SECONDS = 1.75
SPARE_SECONDS = 15
TOKEN = "the-token-of-who-scrapes"


def manifests(name: str) -> list[dict[str, Any]]:
    """Return the documents of a file of Kubernetes' kind."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def of_kind(kind: str) -> dict[str, Any]:
    """Return the pod of a document of kubernetes.yml."""
    found: dict[str, Any] = next(each for each in manifests("kubernetes.yml") if each["kind"] == kind)
    pod: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod


def unit(name: str) -> configparser.SectionProxy:
    """Return the section [Service] of a unit."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / name).read_text())
    return parser["Service"]


def command(words: list[str]) -> dict[str, Any]:
    """Read a command line that runs a worker by the command's own parser."""
    after = words[words.index("manage.py") + 1 :]
    assert after[0] == "runworker"
    return vars(Command().create_parser("manage.py", "runworker").parse_args(after[1:]))


def container_command() -> list[str]:
    """Return the CMD of the Containerfile, which is a JSON list: a shell in between would keep signals to itself."""
    found = re.search(r"^CMD (\[.*\])$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)
    assert found
    return list(yaml.safe_load(found[1]))


def worker_pod() -> dict[str, Any]:
    """Return the one container of the worker's pod."""
    found: dict[str, Any] = of_kind("Deployment")["containers"][0]
    return found


def variables(container: dict[str, Any]) -> dict[str, str]:
    """Return the environment that a container is given here."""
    return {each["name"]: each["value"] for each in container["env"]}


def is_well(address: str | urllib.request.Request) -> bool:
    """Ask as a probe does, or as a request says."""
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


@pytest.mark.parametrize(
    "seconds",
    [
        float(unit("jobqueue-worker.service")["TimeoutStopSec"]),
        float(of_kind("Deployment")["terminationGracePeriodSeconds"]),
        float(re.findall(r"docker stop --time (\d+)", (DOCS / "deploy.md").read_text())[0]),
        float(re.findall(r"stop_grace_period: (\d+)s", (DOCS / "deploy.md").read_text())[0]),
    ],
    ids=["systemd", "Kubernetes", "docker", "compose"],
)
def test_a_worker_is_given_the_time_that_its_stop_takes(seconds: float) -> None:
    settings = conf.build(jobqueue_settings(variables(worker_pod())))
    longest = settings.SHUTDOWN_TIMEOUT + settings.KILL_GRACE + STOP_SECONDS

    assert longest + 2 <= seconds <= longest + SPARE_SECONDS


@pytest.mark.parametrize(
    "words",
    [shlex.split(unit("jobqueue-worker.service")["ExecStart"]), container_command()],
    ids=["systemd", "container"],
)
def test_the_worker_starts_without_any_setting_or_extra(words: list[str]) -> None:
    """With the monitor's port it would end with code 2 in a project that has just the three lines."""
    assert command(words)["metrics_port"] is None


def test_the_worker_of_the_probes_has_their_port_and_the_page_names_its_extra() -> None:
    assert command(worker_pod()["command"])["metrics_port"] == 9100
    assert "`jobqueue[binary,metrics]`" in (DOCS / "deploy.md").read_text()


def test_the_unit_knows_the_exit_codes_of_a_worker() -> None:
    service = unit("jobqueue-worker.service")

    assert {0, int(service["SuccessExitStatus"])} == set(DOCUMENTED_CODES)
    assert (service["KillMode"], service["OOMPolicy"]) == ("mixed", "continue")


def test_the_variables_are_settings_within_their_bounds() -> None:
    settings = conf.build(jobqueue_settings(variables(worker_pod())))

    assert conf.problems(settings) == []
    assert settings.HEALTH_OPEN, "the probes send no token"
    assert int(worker_pod()["resources"]["requests"]["cpu"]) == settings.PROCESSES


@pytest.mark.parametrize("probe", ["livenessProbe", "readinessProbe"])
def test_a_probe_waits_for_its_answer_and_fails_twice_before_it_counts(probe: str) -> None:
    wanted = worker_pod()[probe]
    ports = {each["name"]: each["containerPort"] for each in worker_pod()["ports"]}

    assert ports[wanted["httpGet"]["port"]] == command(worker_pod()["command"])["metrics_port"]
    assert wanted["timeoutSeconds"] < wanted["periodSeconds"]
    assert wanted["failureThreshold"] >= 2


@pytest.mark.django_db(transaction=True)
def test_the_probes_find_a_worker_well_that_was_started_like_that(worker_env: dict[str, str], tmp_path: Path) -> None:
    words = [word if word != "9100" else "0" for word in worker_pod()["command"][3:]]
    with workers_below(tmp_path, worker_env, database_conninfo()) as (launch, workers):
        worker = launch(*words, env=variables(worker_pod()) | {"JOBQUEUE_PROCESSES": "1"})
        worker.says("monitor listens port=")
        port = re.findall(r"monitor listens port=(\d+)", worker.log)[0]
        for probe in ("livenessProbe", "readinessProbe"):
            address = f"http://127.0.0.1:{port}{worker_pod()[probe]['httpGet']['path']}"
            until(partial(is_well, address), what=f"{address} to be well")
        check_all(workers)


@pytest.mark.django_db(transaction=True)
def test_who_scrapes_is_let_in_by_the_token_of_the_secret(worker_env: dict[str, str], tmp_path: Path) -> None:
    (monitor,) = manifests("scraping.yml")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    secret = endpoint["authorization"]["credentials"]
    pod = next(each for each in manifests("kubernetes.yml") if each["kind"] == "Deployment")["spec"]["template"]
    words = [word if word != "9100" else "0" for word in worker_pod()["command"][3:]]

    assert monitor["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert endpoint["port"] in [each["name"] for each in worker_pod()["ports"]]
    assert {"secretRef": {"name": secret["name"]}} in worker_pod()["envFrom"]
    with workers_below(tmp_path, worker_env, database_conninfo()) as (launch, workers):
        worker = launch(*words, env=variables(worker_pod()) | {"JOBQUEUE_PROCESSES": "1", secret["key"]: TOKEN})
        worker.says("monitor listens port=")
        address = f"http://127.0.0.1:{re.findall(r'monitor listens port=([0-9]+)', worker.log)[0]}{endpoint['path']}"
        assert not is_well(address)
        assert is_well(urllib.request.Request(address, headers={"Authorization": f"Bearer {TOKEN}"}))
        check_all(workers)


def test_both_that_migrate_have_a_limit_on_waiting_for_locks_and_none_on_building() -> None:
    wanted = "-c statement_timeout=0 -c lock_timeout=5s"

    assert variables(of_kind("Job")["containers"][0])["PGOPTIONS"] == wanted
    assert unit("jobqueue-migrate.service")["Environment"] == f'"PGOPTIONS={wanted}"'
    assert f'PGOPTIONS="{wanted}" python manage.py migrate' in (DOCS / "deploy.md").read_text()


def test_the_autoscaler_asks_for_metrics_that_there_are_and_knows_a_workers_slots() -> None:
    (scaled,) = manifests("autoscaling.yml")
    trigger = scaled["spec"]["triggers"][0]["metadata"]
    named = {row[0].strip("`") for row in rows(DOCS / "metrics.md", "metric")}
    asked = set(re.findall(r"\bjobqueue_\w+", trigger["query"]))

    assert {name.removesuffix("_sum").removesuffix("_count") for name in asked} <= named
    settings = conf.build(jobqueue_settings(variables(worker_pod())))
    assert int(trigger["threshold"]) == (settings.PROCESSES or 0) * settings.THREADS


@pytest.mark.django_db
def test_the_slots_that_are_needed_follow_from_the_snapshot() -> None:
    (block,) = (each for each in blocks(DOCS / "deploy.md") if "slots_needed" in each.text)
    namespace: dict[str, Any] = {}
    exec(compile(block.text, "deploy.md", "exec"), namespace)
    needed = namespace["slots_needed"]

    assert needed("default") == 0
    JobFactory.create_batch(3)
    assert Job.objects.ops(fresh=True).pending == 3
    assert needed("default") is None, "nobody knows how long they run"
