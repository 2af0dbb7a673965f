"""The bodies of CLAIM, RELEASE and NAMES: what is written is what is read, within their limits."""

from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import CloseCode, RejectedError
from hub.frame import encode_frame
from hub.names.claim import Wish
from peers.wire.control import Notice, decode_notice, encode_notice
from peers.wire.kinds import Kind
from peers.wire.names import (
    NameClaim,
    NameRelease,
    decode_claim,
    decode_release,
    encode_claim,
    encode_release,
    numbered,
)
from tests.wire.pair import CLIENT_HELLO, frames_of, side_of

texts = st.text(max_size=10)
requests = st.integers(0, 2**63)
labels = st.lists(texts, max_size=32).map(tuple)


@given(st.builds(NameClaim, requests, st.builds(Wish, texts, labels, st.booleans())))
def test_claim_round_trip(claim: NameClaim) -> None:
    (frame,) = frames_of(encode_claim(claim))
    assert frame.kind == Kind.CLAIM
    name, marks, queue = claim.wish
    assert msgpack.unpackb(frame.body) == [claim.request, name, list(marks), queue]
    assert decode_claim(frame.body) == claim
    assert numbered(frame.body) == claim.request


@given(st.builds(NameRelease, requests, texts))
def test_release_round_trip(release: NameRelease) -> None:
    (frame,) = frames_of(encode_release(release))
    assert frame.kind == Kind.RELEASE
    assert decode_release(frame.body) == release
    assert numbered(frame.body) == release.request


@given(st.binary(max_size=60))
def test_any_bytes(body: bytes) -> None:
    for decode in (decode_claim, decode_release):
        with contextlib.suppress(RejectedError):
            decode(body)
    assert 0 <= numbered(body) < 1 << 32


BOMBS = [
    (Kind.CLAIM, [7, "a.b", ["x"] * 33, False]),
    (Kind.CLAIM, [7, "a.b", "x", False]),
    (Kind.CLAIM, [7, "a.b", [], 1]),
    (Kind.CLAIM, [7, "a.b"]),
    (Kind.RELEASE, [7]),
    (Kind.RELEASE, [7, ["a.b"]]),
]


@pytest.mark.parametrize(("kind", "body"), BOMBS)
def test_what_is_refused_says_which_request_it_was(kind: Kind, body: list[object]) -> None:
    side = side_of("hub")
    side.hear(CLIENT_HELLO.encode())
    side.events.clear()
    side.session.take_outgoing()
    side.hear(encode_frame(kind, msgpack.packb(body)))
    assert side.events == []
    (frame,) = frames_of(side.session.take_outgoing())
    notice = decode_notice(frame.body)
    assert (notice.kind, notice.request, notice.code) == ("error", 7, CloseCode.BAD_DATA)
    assert notice.text.startswith(f"{kind.name}: ")


@pytest.mark.parametrize("kind", ["owned", "queued", "lost"])
def test_notices_about_names(kind: str) -> None:
    notice = Notice(kind, name="a.b", text="why")  # type: ignore[arg-type]
    (frame,) = frames_of(encode_notice(notice))
    assert msgpack.unpackb(frame.body) == {"kind": kind, "text": "why", "name": "a.b"}
    assert decode_notice(frame.body) == notice
