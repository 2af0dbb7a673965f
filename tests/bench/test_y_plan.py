"""`YPlan`: what cannot be done is said before anything is started, with the name of the option."""

from __future__ import annotations

from typing import Any

import pytest

from peers.bench.worker import BenchError
from peers.bench.y import YPlan

TCP, UNIX, WS = "tcp://127.0.0.1:7400", "unix:///run/hub.sock", "ws://127.0.0.1:7401"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outstanding": 0}, "--outstanding: 0 given, expected a number from 1 to 65,536"),
        ({"seconds": 0}, "--seconds: 0 given"),
        ({"pairs": -1}, "--pairs: -1 given"),
        ({"batches": 0}, "--batches: 0 given"),
        ({"modes": ("shared",), "transport": "tcp"}, "--mode: memory can only be shared"),
        ({"repeat": 0}, "--repeat: 0 given"),
        ({"modes": ()}, "--mode: each once"),
        ({"modes": ("one", "one")}, "--mode: each once"),
        ({"urls": (WS,)}, "--url: one tcp:// or unix:// url expected"),
        ({"urls": (TCP, UNIX)}, "--url: one tcp:// or unix:// url expected"),
        ({"urls": (TCP,), "hub_flags": ("--name=x",)}, "--hub-flag: only for a hub that is started"),
        ({"hub_pid": 1}, "--hub-pid: only with --url"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(fields: dict[str, Any], said: str) -> None:
    """One line that names the option and what was expected."""
    with pytest.raises(BenchError) as raised:
        YPlan(**fields).check()
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    "fields", [{}, {"transport": "tcp"}, {"urls": (UNIX,)}, {"urls": (TCP,), "hub_pid": 1}, {"pairs": 1, "repeat": 2}]
)
def test_a_plan_that_can(fields: dict[str, Any]) -> None:
    """It is returned as it is."""
    plan = YPlan(**fields)
    assert plan.check() is plan
