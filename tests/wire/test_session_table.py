"""The session's table over all pairs of state and kind: what is missing there ends the conversation with 1002."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode
from hub.labels.rules import Rule
from hub.mesh.announcement import Wanted
from hub.messages.frame import Origin, encode_frame
from hub.messages.request_frame import Reply, Request, Status
from hub.names.claim import Wish
from peers.wire.control import (
    Account,
    NameClaim,
    NameRelease,
    Notice,
    Renewal,
    decode_close,
    encode_account,
    encode_claim,
    encode_close,
    encode_notice,
    encode_origin,
    encode_release,
    encode_rules,
    encode_subscription,
    encode_token,
)
from peers.wire.events import Closing
from peers.wire.hello import Hello
from peers.wire.kinds import IGNORABLE, Kind
from peers.wire.records import Commit, Fetch, Records, Stage, encode_commit, encode_fetch, encode_stage, records_parts
from peers.wire.routing import encode_routing
from peers.wire.session import Phase
from peers.wire.shared import Segment, encode_released, encode_segment
from tests.wire.pair import CLIENT_HELLO, HUB_HELLO, HUB_ID, Side, frames_of, message, side_of

DRAWN = """
              HELLO  MESSAGES  SUBSCRIBE  UNSUBSCRIBE  NOTICE  PING  PONG  CLOSE  FETCH  RECORDS  STAGE  COMMIT
OPENING         ✓        .         .           .         .      .     .      ✓      .       .       .      .
WITH_CLIENT     .        ✓         ✓           ✓         .      ✓     ✓      ✓      ✓       .       ✓      ✓
WITH_HUB        .        ✓         .           .         ✓      ✓     ✓      ✓      .       ✓       .      .
WITH_LINK       .        ✓         .           .         ✓      ✓     ✓      ✓      .       .       .      .

              REQUEST  REPLY  SERVE  UNSERVE
OPENING          .       .      .       .
WITH_CLIENT      ✓       ✓      ✓       ✓
WITH_HUB         ✓       ✓      .       .
WITH_LINK        ✓       ✓      .       .

              SEGMENT  RELEASED
OPENING          .         .
WITH_CLIENT      ✓         ✓
WITH_HUB         ✓         ✓
WITH_LINK        .         .

              CLAIM  RELEASE  RULE  UNRULE
OPENING         .       .       .      .
WITH_CLIENT     ✓       ✓       ✓      ✓
WITH_HUB        .       .       .      .
WITH_LINK       .       .       .      .

              ACCOUNT  TOKEN  ORIGIN  ROUTING
OPENING          .       .      .       .
WITH_CLIENT      .       ✓      .       .
WITH_HUB         .       .      ✓       .
WITH_LINK        ✓       ✓      ✓       ✓
"""
"""As documented; CLOSED is told apart: there nothing is read at all."""


def allowed() -> set[tuple[Phase, Kind]]:
    marked = set()
    for table in DRAWN.split("\n\n"):
        header, *rows = table.strip().splitlines()
        for row in rows:
            phase, *marks = row.split()
            kinds = zip(header.split(), marks, strict=True)
            marked |= {(Phase[phase], Kind[kind]) for kind, mark in kinds if mark == "✓"}
    return marked


ALLOWED = allowed()

BODIES = {
    Kind.HELLO: HUB_HELLO.encode(),
    Kind.MESSAGES: message(b"/a"),
    Kind.SUBSCRIBE: encode_subscription(Kind.SUBSCRIBE, ["/a"], 7),
    Kind.UNSUBSCRIBE: encode_subscription(Kind.UNSUBSCRIBE, ["/a"], 7),
    Kind.NOTICE: encode_notice(Notice("dropped", count=3)),
    Kind.PING: encode_frame(Kind.PING, b"now"),
    Kind.PONG: encode_frame(Kind.PONG, b"now"),
    Kind.FETCH: encode_fetch(Fetch(request=7)),
    Kind.RECORDS: encode_frame(Kind.RECORDS, b"".join(records_parts(Records(7, 0, 0, 0, 0, [])))),
    Kind.STAGE: encode_stage(Stage(7, "t", 0, message(b"/a"))),
    Kind.COMMIT: encode_commit(Commit(request=7, transaction="t")),
    Kind.CLOSE: encode_close(CloseCode.DONE, "enough"),
    Kind.REQUEST: Request(b"/a", 7, 0, b"\x01").encode(),
    Kind.REPLY: Reply(7, Status.OK, b"\x01").encode(),
    Kind.SERVE: encode_subscription(Kind.SERVE, ["/a"], 7),
    Kind.UNSERVE: encode_subscription(Kind.UNSERVE, ["/a"], 7),
    Kind.SEGMENT: encode_segment(Segment(7, 1 << 20)),
    Kind.RELEASED: encode_released([(1, 2)]),
    Kind.CLAIM: encode_claim(NameClaim(7, Wish("a.b"))),
    Kind.RELEASE: encode_release(NameRelease(7, "a.b")),
    Kind.RULE: encode_rules(Kind.RULE, [Rule(("a",))], 7),
    Kind.UNRULE: encode_rules(Kind.UNRULE, [Rule(("a",))], 7),
    Kind.TOKEN: encode_token(Renewal(7, "hub_x")),
    Kind.ACCOUNT: encode_account(Account(b"12345678", 1, 2)),
    Kind.ORIGIN: encode_origin(Origin(HUB_ID, 1)),
    Kind.ROUTING: b"".join(encode_routing(Wanted(HUB_ID), 4096)),
}


def side_in(phase: Phase) -> Side:
    side = side_of("client" if phase is Phase.WITH_HUB else "hub")
    if phase is Phase.CLOSED:
        side.session.close(CloseCode.DONE, "done")
    elif phase is not Phase.OPENING:
        side.hear((CLIENT_HELLO if phase is Phase.WITH_CLIENT else ORIGINS_HELLO).encode())
    side.session.shared = True
    side.session.origins = True
    side.events.clear()
    side.session.take_outgoing()
    assert side.session.phase is phase
    return side


ORIGINS_HELLO = msgspec.structs.replace(HUB_HELLO, origins=True)

ALIVE = [phase for phase in Phase if phase is not Phase.CLOSED]


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
@pytest.mark.parametrize("phase", ALIVE, ids=lambda phase: phase.name)
def test_every_pair(phase: Phase, kind: Kind) -> None:
    """What is in the table goes on; what is not ends it with 1002 and a text that names the kind and the state.

    But kinds that may be passed over are.
    """
    side = side_in(phase)
    side.hear(BODIES[kind])
    if (phase, kind) in ALLOWED:
        assert not side.session.closed or kind is Kind.CLOSE
        assert len(side.closings) == (kind is Kind.CLOSE)
        return
    if kind & IGNORABLE:
        assert not side.events
        assert not side.session.closed
        return
    text = f"{kind.name} is not expected {phase.value}"
    assert side.events == [Closing(CloseCode.PROTOCOL_ERROR, text, by_far_side=False)]
    (frame,) = frames_of(side.session.take_outgoing())
    assert frame.kind == Kind.CLOSE
    assert decode_close(frame.body) == (CloseCode.PROTOCOL_ERROR, text)
    assert side.session.phase is Phase.CLOSED


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"mesh": 0}, "HELLO: version 0 of the mesh, this side speaks 1 to 1"),
        ({"link": b""}, "HELLO: the id of a link has 8 bytes"),
    ],
)
def test_a_hub_that_cannot_be_a_peer(fields: dict[str, Any], text: str) -> None:
    hello = msgspec.structs.replace(HUB_HELLO, **fields).encode()
    side, client = side_of("hub"), side_of("client")
    side.hear(hello)
    assert side.closings == [Closing(CloseCode.PROTOCOL_ERROR, text, by_far_side=False)]
    client.hear(hello)
    assert client.session.phase is Phase.WITH_HUB


@pytest.mark.parametrize(("origins", "hello"), [(False, ORIGINS_HELLO), (True, HUB_HELLO), (False, HUB_HELLO)])
def test_origins_are_told_to_whoever_asks(*, origins: bool, hello: Hello) -> None:
    side = side_of("client")
    side.session.origins = origins
    side.hear(hello.encode() + BODIES[Kind.ORIGIN])
    assert side.closings == [Closing(CloseCode.PROTOCOL_ERROR, "ORIGIN is not expected with a hub", by_far_side=False)]


@pytest.mark.parametrize("kind", list(Kind), ids=lambda kind: kind.name)
def test_nothing_is_read_after_close(kind: Kind) -> None:
    side = side_in(Phase.CLOSED)
    side.hear(BODIES[kind] * 3)
    assert not side.events
    assert not side.session.take_outgoing()


@pytest.mark.parametrize("number", [0, 27, 99, 127])
@pytest.mark.parametrize("phase", ALIVE, ids=lambda phase: phase.name)
def test_unknown_kinds_end_it(phase: Phase, number: int) -> None:
    side = side_in(phase)
    side.hear(encode_frame(number, b"whatever"))
    assert side.events == [Closing(CloseCode.PROTOCOL_ERROR, f"unknown kind {number}", by_far_side=False)]


@pytest.mark.parametrize("number", [128, 200, 255])
@pytest.mark.parametrize("phase", ALIVE, ids=lambda phase: phase.name)
def test_ignorable_kinds_are_passed_over(phase: Phase, number: int) -> None:
    side = side_in(phase)
    side.hear(encode_frame(number, b"whatever", key=b"/a", flags=1))
    assert not side.events
    assert not side.session.take_outgoing()
    assert side.session.phase is phase
