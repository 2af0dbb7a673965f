"""Bodies of frames: what is written is what is read; what is not is refused, or ends the conversation, and says why."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub.errors import CloseCode, PeerError, ProtocolError, RejectedError
from hub.journal.layout import COLUMNS
from hub.labels.rules import Rule, check_rule
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_SHARED, Frame, Origin, encode_frame
from hub.messages.request_frame import KIND_REPLY, KIND_REQUEST, Reply, Request
from hub.names.claim import Wish
from hub.requests.requests import cut_values
from peers.wire import control, records
from peers.wire.control import (
    CLOSE_TEXT_LIMIT_BYTES,
    LINK_ID_BYTES,
    PREFIXES_LIMIT,
    RETRY_LIMIT_S,
    RULES_PER_FRAME,
    TOKEN_LIMIT_BYTES,
    Account,
    Notice,
    Renewal,
    RuleChange,
    retry_after_s,
    with_retry,
)
from peers.wire.hello import Hello
from peers.wire.kinds import IGNORABLE, Kind
from peers.wire.records import (
    FETCH_BYTES,
    FETCH_WAIT_LIMIT_MS,
    PARTS_LIMIT,
    TRANSACTION_LIMIT_BYTES,
    Commit,
    Fetch,
    Records,
    Stage,
)
from peers.wire.routing import decode_routing
from peers.wire.shared import decode_handle, decode_released, decode_segment
from tests.wire.pair import CLIENT_HELLO, frames_of, side_of

pack = msgpack.packb
SECRET = "hub_c2VjcmV0"


def only(data: bytes) -> Frame:
    (frame,) = frames_of(data)
    assert (frame.flags, frame.key) == (0, b"")
    return frame


# What is written is what is read.

texts = st.text(max_size=10)
requests = st.integers(0, 2**32 - 1)
numbers = st.integers(0, 2**63)
offsets = st.integers(0, 2**63 - 1)
labels = st.lists(texts, max_size=32).map(tuple)
prefixes = st.lists(texts, max_size=8)
rules = st.lists(
    st.builds(
        Rule,
        st.sets(st.text("abé", min_size=1, max_size=3), min_size=1, max_size=4).map(lambda some: tuple(sorted(some))),
        st.sampled_from(("", "/a")),
        st.sampled_from(("", "a.b")),
    ),
    max_size=5,
)
epochs = st.integers(0, 2**32 - 1)
hub_ids = st.binary(min_size=16, max_size=16)
fetches = st.builds(
    Fetch,
    st.integers(1, 2**32 - 1),
    offsets,
    st.none() | offsets,
    st.none() | offsets,
    st.lists(texts, min_size=1, max_size=5).map(tuple),
    offsets,
    st.integers(0, FETCH_WAIT_LIMIT_MS),
    columns=st.none() | st.lists(st.sampled_from(COLUMNS), max_size=4).map(tuple),
    epoch=offsets,
)
transactions = texts.filter(bool)


class Body(NamedTuple):
    kind: Kind
    said: st.SearchStrategy[Any]
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


BODIES = {
    "account": Body(
        Kind.ACCOUNT,
        st.builds(
            Account,
            link=st.binary(min_size=LINK_ID_BYTES, max_size=LINK_ID_BYTES),
            sent=numbers,
            arrived=numbers,
            last=st.booleans(),
        ),
        control.encode_account,
        control.decode_account,
    ),
    "notice": Body(
        Kind.NOTICE,
        st.builds(
            Notice,
            kind=st.sampled_from(["confirmed", "dropped", "error", "owned", "queued", "lost"]),
            request=numbers,
            count=numbers,
            code=st.integers(0, 65_535),
            text=texts,
            name=st.sampled_from(["", "a.b"]),
            until=st.none() | st.floats(0, 1e9),
        ),
        control.encode_notice,
        control.decode_notice,
    ),
    "subscription": Body(
        Kind.SUBSCRIBE,
        st.tuples(numbers, prefixes),
        lambda said: control.encode_subscription(Kind.SUBSCRIBE, said[1], said[0]),
        lambda body: control.decode_subscription(Kind.SUBSCRIBE, body),
    ),
    "rules": Body(
        Kind.UNRULE,
        st.tuples(rules, requests),
        lambda said: control.encode_rules(Kind.UNRULE, *said),
        lambda body: rules_of(control.decode_rules(Kind.UNRULE, body)),
    ),
    "claim": Body(
        Kind.CLAIM,
        st.builds(control.NameClaim, numbers, st.builds(Wish, texts, labels, st.booleans())),
        control.encode_claim,
        control.decode_claim,
    ),
    "release": Body(
        Kind.RELEASE,
        st.builds(control.NameRelease, numbers, texts),
        control.encode_release,
        control.decode_release,
    ),
    "token": Body(Kind.TOKEN, st.builds(Renewal, numbers, texts), control.encode_token, control.decode_token),
    "fetch": Body(Kind.FETCH, fetches, records.encode_fetch, records.decode_fetch),
    "commit": Body(
        Kind.COMMIT,
        st.builds(
            Commit,
            st.integers(1, 2**32 - 1),
            transactions,
            texts,
            offsets,
            st.lists(offsets, max_size=5),
            st.booleans(),
        ),
        records.encode_commit,
        records.decode_commit,
    ),
    "stage": Body(
        Kind.STAGE,
        st.builds(Stage, requests, transactions, st.integers(0, 2**64 - 1), st.binary()),
        records.encode_stage,
        records.decode_stage,
    ),
    "origin": Body(
        Kind.ORIGIN,
        st.builds(Origin, hub_ids, epochs, st.just(0) | st.integers(1, 2**64 - 1)),
        control.encode_origin,
        control.decode_origin,
    ),
    "close": Body(
        Kind.CLOSE,
        st.tuples(st.integers(0, 65_535), st.text(max_size=30)),
        lambda said: control.encode_close(*said),
        control.decode_close,
    ),
}


def rules_of(change: RuleChange) -> tuple[list[Rule], int]:
    assert not change.subscribe
    return [check_rule(*fields) for fields in change.rules], change.request


@pytest.mark.parametrize("name", BODIES)
@given(st.data())
def test_round_trip(name: str, data: st.DataObject) -> None:
    body = BODIES[name]
    said = data.draw(body.said)
    frame = only(body.encode(said))
    assert (frame.kind, body.decode(frame.body)) == (body.kind, said)
    if body.kind in {Kind.CLAIM, Kind.RELEASE}:
        assert control.numbered(frame.body) == said.request
    if body.kind in {Kind.FETCH, Kind.STAGE, Kind.COMMIT}:
        assert records.request_number(body.kind, frame.body) == said.request


@given(
    st.builds(
        Records,
        requests,
        *[st.integers(0, 2**64 - 1)] * 4,
        st.lists(st.binary(max_size=50), max_size=5),
        st.sampled_from([b"", b"0123456789abcdef"]),
        offsets,
    ),
    st.binary(max_size=100),
)
def test_records(said: Records, noise: bytes) -> None:
    parts = records.records_parts(said)
    assert all(any(part is block for part in parts) for block in said.blocks if len(block) > 1), "none is copied"
    body = b"".join(parts)
    assert records.decode_records(body) == said
    records.check_records(memoryview(body), said.request)
    with pytest.raises(ProtocolError, match="they answer"):
        records.check_records(memoryview(body), said.request + 1)
    with pytest.raises(ProtocolError):
        records.decode_records(b"\0\0\0\1\xff\xff\xff\xff" + bytes(32) + noise)


def test_records_cut_anywhere() -> None:
    body = b"".join(records.records_parts(Records(1, 0, 5, 0, 5, [b"abc", b"", b"defgh"])))
    for size in range(len(body)):
        with pytest.raises(ProtocolError, match="RECORDS"):
            records.decode_records(body[:size])
        with pytest.raises(ProtocolError, match="RECORDS"):
            records.check_records(memoryview(body)[:size], 1)
    for more in (b"x", b"x" * 15, b"x" * 17):
        with pytest.raises(ProtocolError, match="RECORDS"):
            records.decode_records(body + more)


def test_what_may_be_left_out_and_what_is_new() -> None:
    assert Kind.ACCOUNT & IGNORABLE
    assert only(records.encode_fetch(Fetch(7))).body == pack({"request": 7})
    assert only(control.encode_notice(Notice("dropped", count=3))).body == pack({"kind": "dropped", "count": 3})
    plain = Fetch(7, 0, None, None, ("",), FETCH_BYTES, 0)
    assert records.decode_fetch(pack({"request": 7, "colour": "red"})) == plain
    assert records.decode_commit(pack({"request": 7, "transaction": "t"})) == Commit(7, "t", "", 0, [], False)
    assert control.decode_account(pack({"link": b"12345678", "sent": 1, "what": "new"})) == Account(b"12345678", 1)


@given(st.integers(0, 65_535), st.text(max_size=200))
def test_a_long_text_of_a_close_is_cut(code: int, text: str) -> None:
    body = only(control.encode_close(code, text)).body
    found_code, found = control.decode_close(body)
    assert (found_code, len(body) <= 2 + CLOSE_TEXT_LIMIT_BYTES, text.startswith(found)) == (code, True, True)
    assert found == text or len(found.encode()) > CLOSE_TEXT_LIMIT_BYTES - 4
    assert control.decode_close(only(control.encode_close(1002, "no \udcff")).body) == (1002, "no ?")


# When to come back, in the text of a close.


@pytest.mark.parametrize("seconds", [0.0, 0.1, 2.5, 3600.0])
def test_when_to_come_back(seconds: float) -> None:
    text = with_retry("the hub stops", seconds)
    assert (text.startswith("the hub stops; "), retry_after_s(text)) == (True, seconds)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the hub stops", None),
        ("", None),
        ("retry after 5 s", None),
        ("x; retry after 5 s later", None),
        ("x; retry after -5 s", None),
        ("x; retry after inf s", None),
        ("x; retry after 1e9 s", None),
        ("x; retry after 1234567 s", None),
        ("x; retry after \u0665 s", None),
        ("x; retry after 999999.999 s", RETRY_LIMIT_S),
        ("x; retry after 1 s; retry after 2 s", 2.0),
    ],
)
def test_other_texts(text: str, expected: float | None) -> None:
    assert retry_after_s(text) == expected


# What is refused: with the number of the request, where there is one.


def fetch(**fields: Any) -> bytes:
    return bytes(pack({"request": 7} | fields))


def commit(**fields: Any) -> bytes:
    return bytes(pack({"request": 7, "transaction": "t"} | fields))


REFUSED: dict[Kind, list[tuple[bytes, int, str]]] = {
    Kind.FETCH: [
        *((body, 0, "") for body in (b"", b"\xc1", b"\x90", b"\x91" * 100_000, pack({}), b"\x81\xa7request\xc4")),
        *((fetch(request=number), 0, "request") for number in (0, 2**32, -1, "7")),
        *((fetch(start=offset), 7, "start") for offset in (-1, 2**63)),
        (fetch(time=1.5), 7, "time"),
        (fetch(end=-1), 7, "end"),
        *((fetch(prefixes=some), 7, "prefixes") for some in ([], "/a", ["/a"] * 10_001)),
        (fetch(bytes=-1), 7, "bytes"),
        (fetch(wait_ms=FETCH_WAIT_LIMIT_MS + 1), 7, "wait_ms"),
        *((fetch(columns=some), 7, "columns") for some in (["offset", "size"], ["topic"] * 5, "topic", [1])),
        (b"\x82\xa7request\x07\xa8prefixes\x91\xa1\xff", 7, ""),
    ],
    Kind.COMMIT: [
        (b"\xc1", 0, ""),
        (fetch(), 7, "transaction"),
        *((commit(transaction=text), 7, "transaction") for text in ("", "x" * (TRANSACTION_LIMIT_BYTES + 1))),
        (commit(query="x" * (TRANSACTION_LIMIT_BYTES + 1)), 7, "query"),
        *((commit(batch=number), 7, "batch") for number in (-1, 2**63)),
        *((commit(parts=some), 7, "parts") for some in ([-1], [0] * (PARTS_LIMIT + 1))),
        (commit(abort=1), 7, "abort"),
    ],
    Kind.STAGE: [
        (b"", 0, ""),
        (b"\0\0\7", 0, ""),
        (b"\0\0\0\7\0", 7, ""),
        (b"\0\0\0\7\0\0" + bytes(8), 7, ""),
        (b"\0\0\0\7\1\0" + b"x" * 256 + bytes(8), 7, ""),
        (b"\0\0\0\7\0\1x" + bytes(7), 7, ""),
        (b"\0\0\0\7\0\5t" + bytes(8), 7, ""),
        (b"\0\0\0\7\0\1\xff" + bytes(8), 7, ""),
    ],
    Kind.SUBSCRIBE: [
        *((body, 0, "") for body in (b"", b"\xc0", b"\x90", b"\x91\x00", b"\x92\xff\x90", b"\x91" * 100_000)),
        *((b"\x92\x07" + rest, 0, "") for rest in (b"\xc0", b"\x91\x00", b"\x91\xa1\xff", b"\x90\x00")),
        (b"\x93\x07\x90\x00", 0, ""),
        (pack([7, ["/a"] * (PREFIXES_LIMIT + 1)]), 0, "length <= 10000"),
        (b"\x92\x07\xdd\xff\xff\xff\xff" + b"\xa0" * 100, 0, "length <= 10000"),
    ],
    Kind.UNRULE: [
        *((body, 0, "") for body in (b"", b"\xc1", b"\x90", pack([-1, []]))),
        (pack([7, [["a", "", ""]]]), 7, ""),
        (pack([7, [[["a"]]]]), 7, ""),
        (pack([7, [[["a"] * 33, "", ""]]]), 7, ""),
        (pack([7, [[["a"], "", ""]] * (RULES_PER_FRAME + 1)]), 7, ""),
    ],
    Kind.CLAIM: [
        (pack([7, "a.b", ["x"] * 33, False]), 7, ""),
        (pack([7, "a.b", "x", False]), 7, ""),
        (pack([7, "a.b", [], 1]), 7, ""),
        (pack([7, "a.b"]), 7, ""),
    ],
    Kind.RELEASE: [(pack([7]), 7, ""), (pack([7, ["a.b"]]), 7, "")],
    Kind.TOKEN: [
        (b"", 0, ""),
        (pack({"token": SECRET}), 0, "array"),
        (pack([SECRET]), 0, "array"),
        (pack([-1, SECRET]), 0, "$[0]"),
        (pack([7, 8]), 7, "str"),
        (pack([7, SECRET.encode()]), 7, "str"),
        (b"\x92\x07\xa4hub\xff", 7, "not UTF-8"),
        (pack([7, SECRET, SECRET]), 7, "array"),
        (pack([7, SECRET])[:-1], 7, ""),
        (pack([7, SECRET * TOKEN_LIMIT_BYTES]), 7, f"the limit is {TOKEN_LIMIT_BYTES} bytes"),
        (b"\x92\x07\xdb\xff\xff\xff\xff", 7, ""),
    ],
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.name)
def test_what_is_refused_says_why_and_of_which_request(kind: Kind) -> None:
    for body, request, cause in REFUSED[kind]:
        side = side_of("hub")
        side.hear(CLIENT_HELLO.encode() + encode_frame(kind, body) + encode_frame(Kind.PING, b"still here"))
        assert side.events == [CLIENT_HELLO], body[:40]
        refused, pong = frames_of(side.session.take_outgoing())
        notice = control.decode_notice(refused.body)
        assert (notice.kind, notice.request) == ("error", request), body[:40]
        assert notice.code in {CloseCode.BAD_DATA, CloseCode.TOO_BIG}
        assert notice.text.startswith((f"{kind.name}: ", "a token of "))
        assert cause in notice.text
        assert SECRET not in notice.text
        assert pong.body == b"still here"
        if kind in {Kind.FETCH, Kind.STAGE, Kind.COMMIT}:
            assert records.request_number(kind, body) == request


ENDING: list[tuple[str, bytes, str]] = [
    *(("account", body, "ACCOUNT") for body in (b"", b"\xc1", pack({}), pack({"link": b"1", "sent": -1}))),
    ("account", b"\x91" * 5000, "ACCOUNT"),
    *(("origin", bytes(size), f"ORIGIN: {size} bytes, expected 20") for size in (0, 16, 19, 21, 27, 29)),
    *(("close", body, f"{len(body)} bytes, a code has 2") for body in (b"", b"\x03")),
    *(("notice", body, "NOTICE: ") for body in (b"", b"\xc0", b"\x80", b"\x81\xa4kind\xa5other", b"\x81" * 100_000)),
]


@pytest.mark.parametrize(("name", "body", "cause"), ENDING, ids=range(len(ENDING)))
def test_what_ends_the_conversation(name: str, body: bytes, cause: str) -> None:
    with pytest.raises(ProtocolError, match=cause) as caught:
        BODIES[name].decode(body)
    assert caught.value.code == CloseCode.PROTOCOL_ERROR


def test_a_token_is_in_no_representation() -> None:
    side = side_of("hub")
    side.hear(Hello(protocol=1, role="client", name="me", token=SECRET, narrow=True).encode())
    (hello,) = side.events
    assert isinstance(hello, Hello)
    assert hello.token == SECRET
    assert side.session.far == Hello(protocol=1, role="client", name="me", narrow=True)
    assert SECRET not in f"{hello} {hello!r} {Renewal(7, SECRET)} {Renewal(7, SECRET)!r}"


# Whatever a body holds: noise, values of any shape, and values that are cut, nested or lie about their size.

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=4)
    | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=8,
)
packed = plain.map(msgpack.packb)
heads = st.sampled_from(
    [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc7\x0c\xff", b"\x91" * 3000, b"\xa1\xff", b"\xc1"]
)
bodies = st.binary(max_size=40) | packed | st.builds(lambda one, two: one[: len(one) // 2] + two, packed, heads)

DECODERS: dict[str, Callable[[bytes], object]] = {name: body.decode for name, body in BODIES.items()} | {
    "hello": Hello.decode,
    "numbered": control.numbered,
    "records": records.decode_records,
    "fetch number": lambda body: records.request_number(Kind.FETCH, body),
    "stage number": lambda body: records.request_number(Kind.STAGE, body),
    "handle": lambda body: decode_handle(body, 0),
    "handles": lambda body: decode_handle(body, FLAG_BATCH),
    "segment": decode_segment,
    "released": decode_released,
    "routing": decode_routing,
}


@pytest.mark.parametrize("name", DECODERS)
@given(bodies)
def test_it_is_understood_or_refused(name: str, body: bytes) -> None:
    with suppress(PeerError):
        found = DECODERS[name](body)
        if name.startswith("number") or name.endswith("number"):
            assert 0 <= found < 1 << 32  # type: ignore[operator]


@given(st.sampled_from([KIND_REQUEST, KIND_REPLY]), st.integers(0, 255), st.binary(max_size=20), st.booleans())
@example(KIND_REPLY, FLAG_BATCH, b"\x00\x00\x00\x07\x01\x05", False)
@example(KIND_REPLY, FLAG_BATCH, b"\x00\x00\x00\x07\x01\x00\x00\x00\x01", False)
@example(KIND_REQUEST, FLAG_BATCH | FLAG_SHARED, bytes(8) + b"\x01", False)
@example(KIND_REPLY, FLAG_BATCH | FLAG_SHARED, bytes(5) + b"\x01", False)
def test_requests_and_replies(kind: int, flags: int, body: bytes, is_view: bool) -> None:  # noqa: FBT001
    decode = Request.decode if kind == KIND_REQUEST else Reply.decode
    frame = Frame(kind, flags, b"", memoryview(body) if is_view else body)  # type: ignore[arg-type]
    try:
        item = decode(frame)
    except RejectedError:
        return
    assert item.requests > 0
    assert item.size_bytes > 0
    assert item.encode() == encode_frame(kind, body, flags=flags)
    if isinstance(item, Reply) and item.requests < 100:
        for values, piece_flags in cut_values(item, [(place, 1) for place in range(item.requests)]) or ():
            Reply.decode(Frame(KIND_REPLY, piece_flags, b"", Reply(0, item.status, values).encode()[8:]))


@pytest.mark.parametrize("size", range(BATCH_COUNT.size + 1))
def test_a_failure_without_a_reason(size: int) -> None:
    body = b"\x00\x00\x00\x07\x01" + BATCH_COUNT.pack(1)[:size]
    with pytest.raises(RejectedError) as refused:
        Reply.decode(Frame(KIND_REPLY, FLAG_BATCH, b"", body))
    assert refused.value.code == CloseCode.BAD_DATA
