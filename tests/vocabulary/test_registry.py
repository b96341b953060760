"""Which handler does which job type: discovery, duplicates, aliases, and modules that cannot be imported."""

import json
import shutil
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Any
from zipfile import ZipFile

import pytest
from django.apps import apps
from django.core.exceptions import AppRegistryNotReady

from jobqueue.conf import JobQueueSettings
from jobqueue.exceptions import HandlerImportError, UnknownJobType
from jobqueue.handlers import Handler
from jobqueue.registry import Registry, from_policies
from tests.vocabulary import handlers_to_declare as functions

MakeApp = Callable[..., str]
Install = Callable[..., None]

GOOD = """
    from jobqueue import job

    @job("shop.pay", aliases=["shop.charge"])
    def pay(context): ...

    @job("shop.ship")
    async def ship(context): ...
"""

BROKEN = """
    from jobqueue import job

    @job("shop.pay", aliases=["shop.charge"])
    def pay(context): ...

    import no_such_library

    @job(
        "shop.ship",
        queue="x",
    )
    def ship(context): ...
"""


def declare(name: str, func: Callable[..., object] = functions.plain, **options: object) -> Handler:
    return Handler(func, name, **options)  # type: ignore[arg-type]


# Discovery


def test_jobs_modules_of_installed_apps_are_found_at_first_use(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    install(make_app("shop", jobs=GOOD))
    assert "shop.jobs" not in sys.modules

    assert fresh_registry.get("shop.pay").path == "shop.jobs.pay"


def test_starting_django_imports_no_handlers(make_app: MakeApp, install: Install) -> None:
    install(make_app("shop", jobs=BROKEN))

    assert apps.ready
    assert "shop.jobs" not in sys.modules


def test_a_package_of_jobs_is_found_too(fresh_registry: Registry, make_app: MakeApp, install: Install) -> None:
    install(make_app("shop", jobs="from .paying import pay\n", paying=GOOD))

    assert "shop.pay" in fresh_registry


def test_an_app_without_jobs_is_fine(fresh_registry: Registry, make_app: MakeApp, install: Install) -> None:
    install(make_app("quiet"), make_app("shop", jobs=GOOD))

    assert {"shop.pay", "shop.ship"} <= set(fresh_registry.names())
    assert fresh_registry.problems() == []


def test_modules_are_imported_once(fresh_registry: Registry, make_app: MakeApp, install: Install) -> None:
    install(make_app("shop", jobs=GOOD))
    first = fresh_registry.get("shop.pay")

    fresh_registry.load()

    assert fresh_registry.get("shop.pay") is first


def test_a_registered_type_is_found_without_importing_the_others(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    install(make_app("shop", jobs=GOOD))
    fresh_registry.add(declare("a.b"))

    fresh_registry.get("a.b")

    assert "shop.jobs" not in sys.modules


def test_before_django_is_set_up_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps, "models_ready", False)

    with pytest.raises(AppRegistryNotReady):
        Registry().get("a.b")


def test_a_module_may_look_up_job_types_while_it_is_imported(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    source = GOOD + "\n    from jobqueue.registry import registry\n    FOUND = 'no.such' in registry\n"
    install(make_app("shop", jobs=source))

    assert "shop.pay" in fresh_registry
    assert fresh_registry.failed == {}


def test_such_a_look_up_does_not_start_the_imports_over(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    make_app("gate", __init__="imports = 0\n")
    failing = "import gate\ngate.imports += 1\n1 / 0\n"
    looking = "from jobqueue.registry import registry\nFOUND = 'no.such' in registry\n"
    install(make_app("bank", jobs=failing), make_app("shop", jobs=looking))

    fresh_registry.load()

    assert import_module("gate").imports == 1


def test_a_thread_that_comes_during_the_imports_waits_for_their_end(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    """Else it would find a type unknown that is about to be declared."""
    make_app("gate")
    gate: Any = import_module("gate")
    gate.entered, gate.open = threading.Event(), threading.Event()
    wait = "\n    import gate\n    gate.entered.set()\n    gate.open.wait(10)\n"
    install(make_app("shop", jobs=wait + GOOD))
    found: list[object] = []
    first = threading.Thread(target=fresh_registry.load)
    first.start()
    gate.entered.wait(10)
    second = threading.Thread(target=lambda: found.append(fresh_registry.get("shop.pay").name))
    second.start()

    gate.open.set()
    first.join(10)
    second.join(10)

    assert found == ["shop.pay"]


# Modules that cannot be imported


@pytest.fixture
def broken_shop(fresh_registry: Registry, make_app: MakeApp, install: Install) -> Registry:
    install(make_app("shop", jobs=BROKEN), make_app("bank", jobs=GOOD.replace("shop.", "bank.")))
    return fresh_registry


@pytest.mark.parametrize("name", ["shop.pay", "shop.charge", "shop.ship"])
def test_all_types_of_a_broken_module_fail_with_its_error(broken_shop: Registry, name: str) -> None:
    with pytest.raises(HandlerImportError, match="No module named 'no_such_library'") as caught:
        broken_shop.get(name)

    assert (caught.value.job_type, caught.value.module) == (name, "shop.jobs")


def test_a_broken_module_leaves_the_others_alone(broken_shop: Registry) -> None:
    assert broken_shop.get("bank.pay").name == "bank.pay"


def test_what_a_broken_module_had_declared_is_withdrawn(broken_shop: Registry) -> None:
    """Half a module must not run: what its second half would have set is missing."""
    broken_shop.load()

    assert "shop.pay" not in broken_shop
    assert "shop.charge" not in broken_shop


def test_the_error_of_a_module_is_kept_with_its_line(broken_shop: Registry) -> None:
    broken_shop.load()

    assert list(broken_shop.failed) == ["shop.jobs"]
    text = broken_shop.failed["shop.jobs"]
    assert "import no_such_library" in text
    assert "importlib" not in text


def test_a_broken_module_is_reported_as_a_problem(broken_shop: Registry) -> None:
    (problem,) = broken_shop.problems()

    assert (problem.kind, problem.subject) == ("import", "shop.jobs")


def test_a_type_that_no_source_declares_is_unknown_and_the_broken_modules_are_named(broken_shop: Registry) -> None:
    with pytest.raises(UnknownJobType, match=r"these modules cannot be imported: shop\.jobs"):
        broken_shop.get("other.type")


def test_a_type_with_the_name_of_a_broken_app_fails_with_its_error(broken_shop: Registry) -> None:
    """Its name may be made by code that never ran."""
    with pytest.raises(HandlerImportError):
        broken_shop.get("shop.made_by_code")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ('@job("shop.pay"\n def broken(:\n', "SyntaxError"),
        ('raise SystemExit(3)\n@job("shop.pay")\ndef pay(context): ...', "SystemExit: 3"),
        ('1 / 0\n@jobqueue.job(name="shop.pay")\ndef pay(context): ...', "ZeroDivisionError"),
        ('\x00@job("shop.pay")', "null bytes"),
    ],
)
def test_a_module_may_fail_in_any_way(
    fresh_registry: Registry, make_app: MakeApp, install: Install, source: str, words: str
) -> None:
    install(make_app("shop", jobs=source))

    with pytest.raises(HandlerImportError, match=words):
        fresh_registry.get("shop.pay")


def test_a_broken_module_that_the_jobs_module_imports_counts_as_well(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    install(make_app("shop", jobs="from . import paying\n", paying=BROKEN))

    with pytest.raises(HandlerImportError):
        fresh_registry.get("shop.ship")


def test_a_broken_module_without_a_readable_source_fails_with_its_error(
    fresh_registry: Registry, make_app: MakeApp, install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As from a zip file: what it would have declared is then known by the app's name only."""
    make_app("shop")
    shutil.rmtree(tmp_path / "shop")
    with ZipFile(tmp_path / "apps.zip", "w") as archive:
        archive.writestr("shop/__init__.py", "")
        archive.writestr("shop/jobs.py", dedent(BROKEN))
    monkeypatch.syspath_prepend(tmp_path / "apps.zip")
    install("shop")

    with pytest.raises(HandlerImportError, match="no_such_library"):
        fresh_registry.get("shop.ship")


def test_ctrl_c_during_the_imports_is_not_held_against_the_module(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    install(make_app("shop", jobs="raise KeyboardInterrupt\n"))

    with pytest.raises(KeyboardInterrupt):
        fresh_registry.load()

    assert fresh_registry.failed == {}


def test_imports_that_were_interrupted_are_done_again(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    interrupted = "import gate\nif not gate.seen:\n    gate.seen = True\n    raise KeyboardInterrupt\n"
    make_app("gate", __init__="seen = False\n")
    install(make_app("bank", jobs=interrupted), make_app("shop", jobs=GOOD))
    with pytest.raises(KeyboardInterrupt):
        fresh_registry.load()

    assert "shop.pay" in fresh_registry


# The policy table


def test_the_policy_table_goes_through_json_text(fresh_registry: Registry) -> None:
    fresh_registry.add(declare("shop.pay", aliases=["shop.charge"], queue="money"))

    table = from_policies(json.loads(json.dumps(fresh_registry.policies())))

    assert table.get("shop.pay") == fresh_registry.get("shop.pay").policy()


def test_the_policy_of_an_alias_is_that_of_its_type(fresh_registry: Registry) -> None:
    fresh_registry.add(declare("shop.pay", aliases=["shop.charge"]))

    table = from_policies(fresh_registry.policies())

    assert table.get("shop.charge") is table.get("shop.pay")
    assert "shop.charge" not in table.names()
    assert "shop.pay" in table.names()


def test_a_name_stands_above_an_alias_in_the_table_too(fresh_registry: Registry) -> None:
    fresh_registry.add(declare("z.pay", aliases=["a.ship"]))
    fresh_registry.add(declare("a.ship", functions.other))

    assert from_policies(fresh_registry.policies()).get("a.ship").name == "a.ship"


def test_the_table_knows_which_types_cannot_be_imported(broken_shop: Registry) -> None:
    table = from_policies(json.loads(json.dumps(broken_shop.policies())))

    with pytest.raises(HandlerImportError, match="no_such_library"):
        table.get("shop.ship")
    with pytest.raises(UnknownJobType, match=r"shop\.jobs"):
        table.get("other.type")


def test_the_table_of_sound_modules_says_unknown_plainly(fresh_registry: Registry) -> None:
    table = from_policies(fresh_registry.policies())

    with pytest.raises(UnknownJobType) as caught:
        table.get("no.such")

    assert str(caught.value) == "no handler is registered for job type 'no.such'"


def test_a_process_that_was_told_the_policies_asks_for_durations_without_importing_handlers(
    fresh_registry: Registry, make_app: MakeApp, install: Install
) -> None:
    """The worker's supervisor looks for stuck jobs, and runs no code of the project."""
    install(make_app("shop", jobs=GOOD))
    supervisors = Registry()
    supervisors.told = from_policies(fresh_registry.policies())

    durations = supervisors.durations()

    assert durations == fresh_registry.durations()
    assert durations["shop.pay"] == JobQueueSettings().DEADLINE_SECONDS
    assert "shop.charge" not in durations
    assert not supervisors._loaded
