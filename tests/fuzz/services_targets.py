"""What the hub itself answers under `$hub/`: any value, asked of any of its services by somebody who may.

An input has the number of a service, and then the value as MessagePack. Those that send somebody away are left out, as
the hub that is asked serves the next input, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgpack

from hub.history import FIGURES, Sample
from hub.request_frame import Request
from tests.fuzz.hub import CLIENT, FuzzedHub
from tests.fuzz.target import Target

__all__ = ["SERVICES_TARGETS"]

_SENDS_AWAY = frozenset({"$hub/kick"})

_SAID: dict[str, tuple[dict[str, Any], ...]] = {
    "$hub/history": ({"span": "1h", "after": 7},),
    "$hub/losses": ({"id": 3, "limit": 10},),
    "$hub/mesh/graph": ({"after": "00" * 16},),
    "$hub/mesh/trace": ({"topic": "/a", "after": "00" * 16},),
    "$hub/names": ({"prefix": "a", "after": "a.b"},),
    "$hub/nodes": ({"after": "x"},),
    "$hub/topics": ({"under": "/a", "search": "b"}, {"search": "\u202e"}),
    "$hub/users": ({"after": "a"},),
    "$hub/who": ({"after": 1, "limit": 3, "user": ""}, {"id": 4}),
}
"""Sound questions; every service is asked null, too."""

_EDGES = (-1, 2**63 - 1, -(2**63), 2**64 - 1, float("nan"), float("inf"), "", "\0\x1b[31m", b"\xff", [], [[]], {})
"""Put in the place of each field of each question."""


@cache
def _hub() -> FuzzedHub:
    hub = FuzzedHub()
    hub.node.pulse.history.add(500, Sample(*[1.0] * len(FIGURES)))
    return hub


def _services() -> list[str]:
    # Sorted, so that an input that found something asks the same service until there are others.
    return [one for one in _hub().node.core.requests.hub_services.open_to(_asking()) if one not in _SENDS_AWAY]


def _asking() -> Any:
    return next(iter(_hub().node.core.handlers.values()))


def _run(data: bytes) -> None:
    services = _services()
    target = services[data[0] % len(services)] if data else services[0]
    asked = Request(target.encode(), 1, 50, data[1:] or b"\xc0")
    _hub().run("tcp://127.0.0.1:1", CLIENT + asked.encode())


def _seeds() -> list[bytes]:
    services = _services()
    unknown = _SAID.keys() - set(services)
    assert not unknown, f"the hub serves none of {unknown}"
    found = [bytes([number]) + b"\xc0" for number in range(len(services))]
    for target, questions in _SAID.items():
        number = bytes([services.index(target)])
        for question in questions:
            odd = [question | {field: edge} for field in question for edge in _EDGES]
            found += [number + msgpack.packb(one) for one in (question, *odd)]
    return found


SERVICES_TARGETS = (Target("services", _run, _seeds, (b"\xcf" + b"\xff" * 8, b"\xcb\x7f\xf8" + bytes(6), b"\xc1")),)
