"""`Plan`: what cannot be done is said before anything is started, with the name of the option."""

from __future__ import annotations

from typing import Any

import pytest

from peers.bench.errors import BenchError
from peers.bench.y.plan import Plan

TCP, UNIX, WS = "tcp://127.0.0.1:7400", "unix:///run/hub.sock", "ws://127.0.0.1:7401"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"outstanding": 0}, "--outstanding: 0 given, expected a number from 1 to 65,536"),
        ({"batch": 131_073}, "--batch: 131,073 given, expected a number from 1 to 131,072"),
        ({"batches": 0}, "--batches: 0 given"),
        ({"seconds": 0}, "--seconds: 0 given"),
        ({"pairs": -1}, "--pairs: -1 given"),
        ({"repeat": 0}, "--repeat: 0 given"),
        ({"modes": ()}, "--mode: each once"),
        ({"modes": ("one", "one")}, "--mode: each once, of one, many, batched"),
        ({"urls": (WS,)}, "--url: one tcp:// or unix:// url expected"),
        ({"urls": (TCP, UNIX)}, "--url: one tcp:// or unix:// url expected"),
        ({"urls": (TCP,), "hub_flags": ("--name=x",)}, "--hub-flag: only for a hub that is started"),
        ({"hub_pid": 1}, "--hub-pid: only with --url"),
        ({"shared": True, "transport": "tcp"}, "--shared: memory can only be shared over a Unix socket"),
        ({"shared": True, "urls": (TCP,)}, "--shared: memory can only be shared over a Unix socket"),
    ],
)
def test_a_plan_that_cannot_be_carried_out(fields: dict[str, Any], said: str) -> None:
    """One line that names the option and what was expected."""
    with pytest.raises(BenchError) as raised:
        Plan(**fields).check()
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    "fields", [{}, {"shared": True}, {"shared": True, "transport": "tcp", "urls": (UNIX,)}, {"pairs": 1, "repeat": 2}]
)
def test_a_plan_that_can(fields: dict[str, Any]) -> None:
    """It is returned as it is."""
    plan = Plan(**fields)
    assert plan.check() is plan


def test_how_many_are_outstanding_depends_on_the_mode() -> None:
    """One; so many pairs; so many batches."""
    plan = Plan(outstanding=7, batches=3)
    assert [plan.outstanding_in(mode) for mode in plan.modes] == [1, 7, 3]
