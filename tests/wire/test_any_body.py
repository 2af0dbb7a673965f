"""Whatever a body holds, it is understood, refused, or ends the conversation: nothing else is ever raised."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.frame import BATCH_COUNT, FLAG_BATCH, Frame, encode_frame
from hub.request_frame import KIND_REPLY, KIND_REQUEST, Reply, Request
from hub.requests.pending import cut_values
from hub.routes import Route
from peers.wire.control import (
    decode_close,
    decode_notice,
    decode_origin,
    decode_rules,
    decode_subscription,
    decode_token,
)
from peers.wire.events import Closing, Event
from peers.wire.hello import ID_BYTES, Hello
from peers.wire.kinds import Kind
from peers.wire.names import decode_claim, decode_release, numbered
from peers.wire.records import decode_commit, decode_fetch, decode_records, decode_stage, request_number
from peers.wire.routing import decode_routing
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Session
from peers.wire.shared import decode_handle, decode_released, decode_segment
from tests.hub.fakes import Turn
from tests.wire.bodies import bodies

DECODERS: dict[str, Callable[[bytes], object]] = {
    "hello": Hello.decode,
    "subscribe": lambda body: decode_subscription(Kind.SUBSCRIBE, body),
    "notice": decode_notice,
    "close": decode_close,
    "claim": decode_claim,
    "release": decode_release,
    "numbered": numbered,
    "fetch": decode_fetch,
    "commit": decode_commit,
    "stage": decode_stage,
    "records": decode_records,
    "fetch number": lambda body: request_number(Kind.FETCH, body),
    "stage number": lambda body: request_number(Kind.STAGE, body),
    "rule": lambda body: decode_rules(Kind.RULE, body),
    "handle": lambda body: decode_handle(body, 0),
    "handles": lambda body: decode_handle(body, FLAG_BATCH),
    "segment": decode_segment,
    "released": decode_released,
    "token": decode_token,
    "origin": decode_origin,
    "routing": decode_routing,
}


@pytest.mark.parametrize("name", DECODERS)
@given(bodies)
def test_decoders(name: str, body: bytes) -> None:
    with suppress(ProtocolError, RejectedError):
        DECODERS[name](body)


@given(st.sampled_from([KIND_REQUEST, KIND_REPLY]), st.integers(0, 255), st.binary(max_size=20), st.booleans())
@example(KIND_REPLY, FLAG_BATCH, b"\x00\x00\x00\x07\x01\x05", False)
@example(KIND_REPLY, FLAG_BATCH, b"\x00\x00\x00\x07\x01\x00\x00\x00\x01", False)
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


def _hello(role: Any) -> bytes:
    return Hello(protocol=1, role=role, id=b"x" * ID_BYTES, link=b"the link", mesh=1, origins=True).encode()


@pytest.mark.parametrize(("role", "far"), [("hub", "client"), ("hub", "hub"), ("client", "hub")])
@given(
    kind=st.sampled_from(sorted(Kind)) | st.integers(0, 255),
    flags=st.integers(0, 31),
    key=st.sampled_from([b"", b"/a", b"$hub/x", b"\xff", b"\x00\x02/a\x00\x00"]) | st.binary(max_size=12),
    body=bodies,
    shared=st.booleans(),
    origins=st.booleans(),
)
def test_sessions(
    role: str,
    far: str,
    *,
    kind: int,
    flags: int,
    key: bytes,
    body: bytes,
    shared: bool,
    origins: bool,
) -> None:
    turn = Turn()
    session: Session[Route] = Session(role, turn.core.routes, 1 << 16)
    session.shared = shared
    session.origins = origins
    session.feed(_hello(far) + encode_frame(kind, body, key=key, flags=flags))
    found: list[Event] = []
    while (event := session.next_event()) is not NEED_DATA:
        if isinstance(event, Closing):
            assert session.closed
            break
        found.append(event)  # type: ignore[arg-type]
    assert isinstance(found[0], Hello)
    session.take_outgoing()
