"""TLS without I/O: whatever the pieces in which bytes come, both sides understand each other, or it is said why not."""

from __future__ import annotations

import contextlib
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peers.transport.tls_transport import TlsSession
from tests.hubs.authority import Authority, Files
from tests.transport.tls_ends import FarEnd, listening_context

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Authority(tmp_path_factory.mktemp("authority")).issue("127.0.0.1")


@pytest.fixture(scope="module")
def context(files: Files) -> ssl.SSLContext:
    return listening_context(files)


def shaken(context: ssl.SSLContext, far: FarEnd, piece: int = 10**6, tail: bytes = b"") -> TlsSession:
    near = TlsSession(context)
    is_done = False
    while not is_done:
        said = far.shake()
        if far.is_shaken and tail:
            said, tail = said + far.say(tail), b""
        for start in range(0, len(said), piece):
            near.feed(said[start : start + piece])
            is_done = near.shake()
        far.hear(near.outgoing())
    far.shake()
    return near


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("piece", [1, 7, 100, 10**6])
def test_a_handshake_in_pieces(context: ssl.SSLContext, version: ssl.TLSVersion, piece: int) -> None:
    far = FarEnd(version)
    near = shaken(context, far, piece)
    near.feed(far.say(b"from there"))
    assert near.read() == b"from there"
    assert near.read() == b""
    far.hear(b"".join(near.write(b"from here")))
    assert far.understand() == b"from here"


@given(said=st.lists(st.binary(max_size=40_000), max_size=6), cuts=st.lists(st.integers(1, 70_000), min_size=1))
def test_what_is_said_arrives(context: ssl.SSLContext, said: list[bytes], cuts: list[int]) -> None:
    far = FarEnd()
    near = shaken(context, far)
    sent = b"".join(far.say(one) for one in said if one)
    heard, place = b"", 0
    while sent:
        size = cuts[place % len(cuts)]
        near.feed(sent[:size])
        heard += near.read()
        sent, place = sent[size:], place + 1
    assert heard == b"".join(said)
    for one in said:
        if one:
            far.hear(b"".join(near.write(one)))
    assert far.understand() == heard


def test_what_comes_with_the_last_word_of_the_handshake(context: ssl.SSLContext) -> None:
    far = FarEnd()
    near = shaken(context, far, tail=b"at once" * 20_000)
    assert near.read() == b"at once" * 20_000


def test_the_far_side_ends(context: ssl.SSLContext) -> None:
    far = FarEnd()
    near = shaken(context, far)
    near.feed(far.say(b"last") + far.end() + b"what is no TLS")
    assert near.read() == b"last"
    assert near.has_ended
    assert near.read() == b""


@pytest.mark.parametrize("version", VERSIONS)
def test_this_side_ends(context: ssl.SSLContext, version: ssl.TLSVersion) -> None:
    far = FarEnd(version)
    near = shaken(context, far)
    said = far.say(b"one")
    near.end()
    near.feed(said + far.say(b"two"))
    assert near.read() == b"onetwo"
    far.hear(near.outgoing())
    assert far.understand() == b""
    assert far.object.pending() == 0
    near.end()
    assert not near.has_ended


@given(place=st.integers(0, 2000), other=st.binary(min_size=1, max_size=600), piece=st.integers(1, 3000))
def test_a_handshake_with_other_bytes_in_it(context: ssl.SSLContext, place: int, other: bytes, piece: int) -> None:
    near, far = TlsSession(context), FarEnd()
    said = far.shake()
    place %= len(said)
    if said[place : place + len(other)] == other:
        return
    changed = said[:place] + other + said[place + len(other) :]
    with contextlib.suppress(ssl.SSLError):
        for start in range(0, len(changed), piece):
            near.feed(changed[start : start + piece])
            assert not near.shake()
