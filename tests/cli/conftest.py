"""What the tests of the command line share: one real hub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.programs import RunningHub, run_hub


@pytest.fixture(scope="session")
def running_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with run_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub
