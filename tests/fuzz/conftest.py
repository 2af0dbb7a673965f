"""Targets that hold processes let go of them when the last test of the folder is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.hub_targets import close_recording_hub


@pytest.fixture(scope="package", autouse=True)
def closed_hubs() -> Iterator[None]:
    """End the hub whose journal is read by processes of its own."""
    yield
    close_recording_hub()
