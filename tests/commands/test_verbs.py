"""What a far side may ask, whatever it speaks: it is done, or refused with the request's number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.limits import CoreLimits, HandlerLimits
from hub.messages.frame import FLAG_BATCH, encode_frame
from hub.messages.request_frame import FLAG_NAMED, Item
from hub.settings.settings import Limits
from peers.commands.commands import STEPS_OF_CLIENT, Commands, Verb
from peers.journal.remote_journals import NoJournal
from peers.server.audit import Audit
from peers.wire.control import RuleChange
from peers.wire.events import Closing, ServiceChange, SubscriptionChange
from peers.wire.hello import ID_BYTES, Hello
from peers.wire.kinds import Kind
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Session
from tests.hub.fakes import Turn
from tests.wire.bodies import bodies

texts = st.sampled_from(["", "/a", "a.b", "$hub/names", "\n", "é", "x" * 300]) | st.text(max_size=3)
labels = st.lists(texts, max_size=3)
numbers = st.sampled_from([0, 1, 7, 2**32 - 1, 2**62, 2**63 - 1])
arrays: st.SearchStrategy[Any] = st.one_of(
    st.tuples(numbers, st.lists(texts, max_size=3)),  # SUBSCRIBE, SERVE
    st.tuples(numbers, st.lists(st.tuples(labels, texts, texts), max_size=3)),  # RULE
    st.tuples(numbers, texts, labels, st.booleans()),  # CLAIM
    st.tuples(numbers, texts),  # RELEASE
    st.tuples(st.lists(st.tuples(texts, labels, numbers, numbers), max_size=3), st.lists(texts, max_size=3)),  # NAMES
    st.fixed_dictionaries(
        {"request": numbers, "start": numbers, "prefixes": labels, "transaction": texts, "parts": st.lists(numbers)}
    ),  # FETCH, COMMIT
)
kinds = st.sampled_from([kind for kind in Kind if kind not in {Kind.HELLO, Kind.PING, Kind.PONG, Kind.CLOSE}])
frames = st.builds(
    lambda kind, body, key, flags: encode_frame(kind, body, key=key, flags=flags),
    kinds,
    arrays.map(msgpack.packb)
    | bodies
    | st.builds(lambda head, body: head + body, st.binary(min_size=8, max_size=9), bodies),
    texts.map(str.encode) | st.just(b"\xff"),
    st.sampled_from([0, FLAG_BATCH, FLAG_NAMED, FLAG_BATCH | FLAG_NAMED]),
)


@pytest.mark.parametrize("role", ["client", "hub"])
@given(st.lists(frames, max_size=5))
def test_any_requests(role: Any, asked: list[bytes]) -> None:
    desk = Desk()
    session: Session[Any] = Session("hub", desk.turn.core.routes, 1 << 16)
    session.feed(Hello(protocol=1, role=role, id=b"x" * ID_BYTES).encode() + b"".join(asked))
    session.next_event()
    while (event := session.next_event()) is not NEED_DATA:
        if isinstance(event, Closing):
            return
        if event is not None and type(event).__name__ not in {"Run", "Stretch", "Notice"}:
            assert desk.verbs.act(event) >= 0  # type: ignore[arg-type]
    session.take_outgoing()


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
