"""How many examples a property is tried with, and the fixtures of real workers."""

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.storage.conftest import quiet
from tests.worker.conftest import effects, enqueue, launch, wait_for

__all__ = ["effects", "enqueue", "launch", "quiet", "wait_for"]

# The first examples are the same everywhere: what fails in `make test` fails for everybody.
CALM = [
    HealthCheck.function_scoped_fixture,
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
]
# No shrinking: with a database behind each example it takes minutes, and the rows are small as they are.
PHASES = [Phase.explicit, Phase.generate]
QUICK = settings(deadline=None, database=None, suppress_health_check=CALM, derandomize=True, phases=PHASES)
LONG = settings(QUICK, derandomize=False, print_blob=True)
EXAMPLES = {"quick": 25, "long": 200}


@pytest.fixture(autouse=True, params=["quick", pytest.param("long", marks=pytest.mark.faults)])
def effort(request: pytest.FixtureRequest) -> str:
    """Choose the number of examples: each property is collected twice. A module's COSTLY divides it."""
    chosen: str = request.param
    examples = max(2, EXAMPLES[chosen] // getattr(request.module, "COSTLY", 1))
    # What @settings would set, which may stand on a function once only.
    request.function._hypothesis_internal_use_settings = settings(
        QUICK if chosen == "quick" else LONG, max_examples=examples
    )
    return chosen
