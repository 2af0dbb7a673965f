"""What a far side may ask, whatever it speaks: it is done, or refused with the request's number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st

from hub.limits import CoreLimits, HandlerLimits
from hub.messages.request_frame import Item
from hub.settings.settings import Limits
from peers.commands.commands import STEPS_OF_CLIENT, Commands, Verb
from peers.journal.remote_journals import NoJournal
from peers.server.audit import Audit
from peers.wire.control import RuleChange
from peers.wire.events import ServiceChange, SubscriptionChange
from peers.wire.kinds import Kind
from tests.hub.fakes import Turn

kinds = st.sampled_from([kind for kind in Kind if kind not in {Kind.HELLO, Kind.PING, Kind.PONG, Kind.CLOSE}])


class Far:
    frame_limit_bytes = 1 << 20

    def __init__(self) -> None:
        self.told: list[tuple[int, int | None]] = []
        self.rest: Any = None

    def confirm(self, request: int, offset: int | None = None, **_: Any) -> None:
        self.told.append((request, offset))

    def put_off(self, rest: object) -> None:
        assert self.rest is None
        self.rest = rest

    def __getattr__(self, _answer: str) -> Any:
        return lambda *_, **__: None


class Desk:
    def __init__(self, limits: CoreLimits = CoreLimits()) -> None:  # noqa: B008 -- frozen
        self.turn = Turn(limits)
        self.handler, _ = self.turn.join()
        self.handler.poster = self
        self.far = Far()
        self.handler.outlet = self.far  # type: ignore[assignment]
        self.server = SimpleNamespace(
            core=self.turn.core,
            journal=NoJournal(),
            rejected_messages=0,
            settings=SimpleNamespace(limits=Limits()),
            now_ms=lambda: 0,
            wall_us=lambda: 1,
            audit=Audit(self.turn.core.system_events.announce, lambda: 1.0),
        )
        self.verbs = Commands(self.server, self.handler, self.far)  # type: ignore[arg-type]

    def post(self, items: list[Item]) -> None: ...


MANY = [f"/{number}" for number in range(2 * STEPS_OF_CLIENT + 1)]
ROOM = CoreLimits(client=HandlerLimits(len(MANY), len(MANY), len(MANY)))


@pytest.mark.parametrize(
    ("more", "less"),
    [
        (SubscriptionChange(True, MANY, 7), SubscriptionChange(False, MANY, 8)),
        (ServiceChange(True, MANY, 7), ServiceChange(False, MANY, 8)),
        (
            RuleChange(True, [(("a",), prefix, "") for prefix in MANY], 7),
            RuleChange(False, [(("a",), prefix, "") for prefix in MANY], 8),
        ),
    ],
)
def test_many_at_once(more: Verb, less: Verb) -> None:
    desk = Desk(ROOM)
    for verb, request in ((more, 7), (less, 8)):
        costs = [desk.verbs.act(verb)]
        while desk.far.rest is not None:
            assert desk.far.told == []
            rest, desk.far.rest = desk.far.rest, None
            costs.append(desk.verbs.act(rest))
        assert len(costs) >= 3
        assert max(costs) == STEPS_OF_CLIENT
        assert desk.far.told == [(request, None)]
        desk.far.told.clear()


def test_whoever_leaves_in_between() -> None:
    desk = Desk(ROOM)
    desk.verbs.act(SubscriptionChange(subscribe=True, prefixes=MANY, request=7))
    desk.turn.core.detach(desk.handler, "lost")
    assert desk.verbs.act(desk.far.rest) == 0
    assert desk.far.told == []
