"""The two files that would be published, built once for all tests of a process."""

import pytest

from tests.adoption.building import Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return the sdist and the wheel of this checkout."""
    return build(tmp_path_factory.mktemp("dists") / "build")
