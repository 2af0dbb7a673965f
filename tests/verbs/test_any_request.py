"""Whatever a client asks for in a frame that is understood, the hub answers it: nothing is ever raised."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.frame import FLAG_BATCH, encode_frame
from hub.request_frame import FLAG_NAMED
from peers.wire.events import Closing
from peers.wire.hello import ID_BYTES, Hello
from peers.wire.kinds import Kind
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Session
from tests.verbs.test_verbs import Desk
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
    """Each frame ends in an event that is carried out, in an answer, or in the end of the conversation."""
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
