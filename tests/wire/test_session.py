"""What one session does with what it is told, in each state: what is not in its table ends it with 1002."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode
from hub.labels.envelope import tagged
from hub.labels.rules import Rule
from hub.mesh.announcement import Wanted
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_SHARED, FLAG_TAGGED, Frame, Origin, encode_frame
from hub.messages.request_frame import Reply, Request, Status
from hub.messages.stretch import Run
from hub.names.claim import Wish
from peers.wire.control import (
    PING_LIMIT_BYTES,
    Account,
    NameClaim,
    NameRelease,
    Notice,
    Renewal,
    decode_close,
    decode_notice,
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
from peers.wire.events import Closing, SubscriptionChange
from peers.wire.hello import Hello
from peers.wire.kinds import IGNORABLE, Kind
from peers.wire.records import Commit, Fetch, Records, Stage, encode_commit, encode_fetch, encode_stage, records_parts
from peers.wire.routing import encode_routing
from peers.wire.scanner import NEED_DATA
from peers.wire.session import HANDSHAKE_LIMIT_BYTES, Phase
from peers.wire.shared import Segment, encode_released, encode_segment
from tests.wire.pair import (
    CLIENT_HELLO,
    HUB_HELLO,
    HUB_ID,
    Side,
    frames_of,
    message,
    packed,
    parts,
    runs_in,
    side_of,
)


def with_client() -> Side:
    side = side_of("hub")
    side.hear(CLIENT_HELLO.encode())
    side.events.clear()
    return side


def notices(side: Side) -> list[Notice]:
    return [decode_notice(frame.body) for frame in frames_of(side.session.take_outgoing())]


# The handshake.


def test_a_stranger_may_not_send_much() -> None:
    side = side_of("hub")
    side.hear(encode_frame(Kind.HELLO, bytes(HANDSHAKE_LIMIT_BYTES)))
    assert side.closings[0].text.startswith("HELLO: ")
    side = side_of("hub")
    side.hear(encode_frame(Kind.HELLO, bytes(HANDSHAKE_LIMIT_BYTES + 1))[:8])
    assert side.closings == [
        Closing(CloseCode.TOO_BIG, f"body of {HANDSHAKE_LIMIT_BYTES + 1} bytes, limit {HANDSHAKE_LIMIT_BYTES}", False)
    ]


def test_messages_before_hello_are_not_told() -> None:
    for frame in (message(b"/a"), message(b"!refused"), packed(b"/a", 0, b"")):
        side = side_of("hub")
        side.hear(frame + CLIENT_HELLO.encode())
        assert side.events == [Closing(CloseCode.PROTOCOL_ERROR, "MESSAGES is not expected before HELLO", False)]
        assert side.session.rejected_messages == 0


# PING.


@pytest.mark.parametrize("body", [b"", b"x", bytes(PING_LIMIT_BYTES)])
def test_ping_is_echoed(body: bytes) -> None:
    side = with_client()
    side.hear(encode_frame(Kind.PING, body) + encode_frame(Kind.PING, b"last"))
    assert frames_of(side.session.take_outgoing()) == [
        Frame(Kind.PONG, 0, b"", body),
        Frame(Kind.PONG, 0, b"", b"last"),
    ]
    assert not side.events


def test_a_large_ping_ends_it() -> None:
    side = with_client()
    side.hear(encode_frame(Kind.PING, bytes(PING_LIMIT_BYTES + 1)))
    assert side.closings == [Closing(CloseCode.TOO_BIG, "PING of 129 bytes, the limit is 128 bytes", False)]
    assert [frame.kind for frame in frames_of(side.session.take_outgoing())] == [Kind.CLOSE]


# Refused messages.


def test_refusals_of_a_read_are_merged() -> None:
    side = with_client()
    side.hear(message(b"!one") * 3 + message(b"/a") + packed(b"!one", 4) + message(b"!two") + message(b"/a"))
    assert side.topics == [b"/a", b"/a"]
    assert notices(side) == [
        Notice("error", count=7, code=CloseCode.BAD_DATA, text="topic b'!one' is refused"),
        Notice("error", count=1, code=CloseCode.BAD_DATA, text="topic b'!two' is refused"),
    ]
    assert side.session.rejected_messages == 8
    assert not side.session.closed


def test_refusals_are_told_before_a_pong() -> None:
    side = with_client()
    side.hear(message(b"!one") * 2 + encode_frame(Kind.PING, b"") + message(b"!one") * 3)
    kinds = [frame.kind for frame in frames_of(side.session.take_outgoing())]
    assert kinds == [Kind.NOTICE, Kind.PONG, Kind.NOTICE]
    assert side.session.rejected_messages == 5


def test_refusals_of_many_causes_are_summed_up() -> None:
    side = with_client()
    side.hear(b"".join(message(b"!%d" % number) for number in range(1000)))
    told = notices(side)
    assert len(told) <= 20
    assert sum(notice.count for notice in told) == 1000
    assert told[-1].text == "more was rejected, for other reasons"


def test_a_client_keeps_refusals_to_itself() -> None:
    side = side_of("client")
    side.hear(HUB_HELLO.encode() + packed(b"/a", 0, b"") + message(b"/a"))
    assert not side.session.take_outgoing()
    assert side.session.rejected_messages == 1
    assert side.topics == [b"/a"]


# Subscriptions and notices.


def test_nothing_is_told_behind_the_end() -> None:
    side = with_client()
    side.session.tell(Notice("confirmed", request=5))
    assert notices(side) == [Notice("confirmed", request=5)]
    side.session.close(CloseCode.DONE, "that was all")
    side.session.tell(Notice("confirmed", request=6))
    (frame,) = frames_of(side.session.take_outgoing())
    assert frame.kind == Kind.CLOSE


# The end.


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"\x03\xe8", 1000, ""),
        (b"\x03\xe9going", 1001, "going"),
        (b"\x0f\xa8\xff\xfe", 4008, "\ufffd\ufffd"),
        (b"\x00\x00" + b"x" * 500, 0, "x" * 500),
    ],
)
def test_close_is_read(body: bytes, code: int, text: str) -> None:
    side = with_client()
    side.hear(encode_frame(Kind.CLOSE, body) + message(b"/late"))
    assert side.events == [Closing(code, text, by_far_side=True)]
    assert not side.session.take_outgoing()
    assert side.session.closed


def test_nothing_behind_an_end_in_the_middle_of_a_read() -> None:
    side = with_client()
    stream = message(b"/a") + encode_frame(Kind.PING, b"") + message(b"/a")
    stream += encode_subscription(Kind.SUBSCRIBE, ["/a"], 1) + message(b"!no")
    side.session.feed(stream)
    assert isinstance(side.session.next_event(), Run)
    side.session.close(CloseCode.OVERFLOW, "queue full")
    assert side.session.next_event() is NEED_DATA
    assert [frame.kind for frame in frames_of(side.session.take_outgoing())] == [Kind.CLOSE]


# Anything at all.

good = st.sampled_from(
    [
        CLIENT_HELLO.encode(),
        HUB_HELLO.encode(),
        Hello(protocol=2, role="client").encode(),
        message(b"/a"),
        message(b"!no"),
        packed(b"/a", 3),
        encode_subscription(Kind.SUBSCRIBE, ["/a"], 1),
        encode_notice(Notice("confirmed", request=1)),
        encode_frame(Kind.PING, b"x"),
        encode_close(CloseCode.DONE, "done"),
        encode_frame(200, b""),
    ]
)
odd = st.builds(
    encode_frame, st.integers(0, 255), st.binary(max_size=40), key=st.binary(max_size=10), flags=st.integers(0, 255)
)


@given(
    role=st.sampled_from(["client", "hub"]),
    opening=st.sampled_from([b"", CLIENT_HELLO.encode(), HUB_HELLO.encode()]),
    stream=st.lists(st.one_of(good, good, odd, st.binary(max_size=30)), max_size=10).map(b"".join),
    cuts=st.lists(st.integers(0, 400), max_size=5),
)
def test_anything_at_all(role: str, opening: bytes, stream: bytes, cuts: list[int]) -> None:
    side = side_of(role)
    for piece in parts(opening + stream, cuts):
        side.hear(piece)
    assert len(side.closings) <= 1
    if side.closings:
        assert side.events[-1] is side.closings[0]
        assert side.session.closed
    answered = [frame.kind for frame in frames_of(side.session.take_outgoing())]
    assert set(answered) <= {Kind.PONG, Kind.NOTICE, Kind.CLOSE}
    assert answered.count(Kind.CLOSE) == sum(not closing.by_far_side for closing in side.closings)
    assert Kind.CLOSE not in answered[:-1]


@given(stream=st.lists(st.one_of(good, good, odd), max_size=10).map(b"".join), cuts=st.lists(st.integers(0, 400)))
def test_cuts_change_nothing(stream: bytes, cuts: list[int]) -> None:
    whole, pieces = side_of("hub"), side_of("hub")
    whole.hear(stream)
    for piece in parts(stream, cuts):
        pieces.hear(piece)
    assert whole.topics == pieces.topics
    without_runs = [[event for event in side.events if not runs_in(event)] for side in (whole, pieces)]
    assert without_runs[0] == without_runs[1]
    assert whole.session.rejected_messages == pieces.session.rejected_messages


@given(stream=st.lists(st.one_of(good, good, odd), max_size=10).map(b"".join), cuts=st.lists(st.integers(0, 400)))
def test_nothing_is_behind_what_has_no_more(stream: bytes, cuts: list[int]) -> None:
    side = side_of("hub")
    for piece in parts(CLIENT_HELLO.encode() + stream, cuts):
        side.session.feed(piece)
        while side.session.next_event() is not NEED_DATA:
            if not side.session.has_more:
                assert side.session.next_event() is NEED_DATA
                break
        assert side.session.closed or not side.session.has_more


def test_it_is_known_whether_something_waits_to_be_written() -> None:
    side = with_client()
    side.session.take_outgoing()
    assert not side.session.has_outgoing
    side.session.tell(Notice("confirmed", request=3))
    assert side.session.has_outgoing
    assert notices(side) == [Notice("confirmed", request=3)]
    assert not side.session.has_outgoing
    side.session.refuse(CloseCode.NOT_ALLOWED, "no", 2)
    assert side.session.has_outgoing
    assert [notice.count for notice in notices(side)] == [2]
    assert not side.session.has_outgoing


def test_a_search_for_labels_is_counted() -> None:
    side = side_of("hub")
    side.hear(CLIENT_HELLO.encode())
    frames = [Batch.under(tagged("/t", [str(number)]).encode(), [number], FLAG_TAGGED).frames for number in range(3)]
    side.session.feed(b"".join(frames))
    kinds = []
    while (event := side.session.next_event()) is not NEED_DATA:
        kinds.append(type(event).__name__)
    assert kinds == ["NoneType", "Run", "NoneType", "Run", "NoneType", "Run"]


# Work that goes on in the next turn.


def test_what_is_put_back() -> None:
    session = side_of("hub").session
    session.feed(CLIENT_HELLO.encode())
    assert session.next_event() == CLIENT_HELLO
    first, second = (encode_subscription(Kind.SUBSCRIBE, [prefix]) for prefix in ("/a", "/b"))
    session.feed(first + second)
    event = session.next_event()
    session.put_back("the rest")
    assert session.next_event() == "the rest"
    assert event == SubscriptionChange(subscribe=True, prefixes=["/a"], request=0)
    assert session.next_event() == SubscriptionChange(subscribe=True, prefixes=["/b"], request=0)
    assert session.next_event() is NEED_DATA
    session.put_back("more")
    session.close(CloseCode.GOING_AWAY, "done")
    session.put_back("and more")
    assert session.next_event() is NEED_DATA


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
    """What is in the table goes on; what is not ends it with 1002 and a text that names the kind and the state."""
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


@pytest.mark.parametrize("role", ["hub", "client"])
@pytest.mark.parametrize("kind", [Kind.SEGMENT, Kind.MESSAGES, Kind.REQUEST])
def test_shared_memory_that_was_not_agreed_on(kind: Kind, role: str) -> None:
    side = side_in(Phase.WITH_CLIENT if role == "hub" else Phase.WITH_HUB)
    side.session.shared = False
    body = frames_of(BODIES[kind])[0].body
    side.hear(encode_frame(kind, body, key=b"/a", flags=0 if kind is Kind.SEGMENT else FLAG_SHARED))
    assert not side.topics
    assert [closing.by_far_side for closing in side.closings] == [False] * (kind is Kind.SEGMENT or role == "client")
