"""A client's side of the wire, against the hub's session, in memory."""

from __future__ import annotations

import pytest

from hub.errors import CloseCode
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_BATCH, KIND_MESSAGES, encode_frame
from hub.messages.stretch import Run
from hub.names.claim import Wish
from peers.client.conversation import Event, Introduction, Unreadable, Verb
from peers.client.routes import LocalRoutes, Route
from peers.client.values import decode_batch
from peers.client.wire import WireConversation
from peers.wire.control import NameClaim, NameRelease, Notice, Renewal, RuleChange, encode_close, encode_notice
from peers.wire.events import Closing, ServiceChange, SubscriptionChange
from peers.wire.hello import ID_BYTES, Hello, QueueWish
from peers.wire.kinds import Kind
from peers.wire.records import Commit, Fetch, Stage
from peers.wire.scanner import NEED_DATA
from peers.wire.session import Phase, Session
from tests.client.test_routes import UNREADABLE, NamedSink

HUB = Hello(protocol=1, role="hub", id=bytes(ID_BYTES), name="memory")


class Pair:
    def __init__(self, introduction: Introduction | None = None) -> None:
        self.routes = LocalRoutes(UNREADABLE)
        self.client = WireConversation(introduction or Introduction(), self.routes, frame_limit_bytes=10_000)
        self.hub: Session[Route] = Session("hub", LocalRoutes(UNREADABLE), 10_000)

    def to_hub(self) -> list[object]:
        self.hub.feed(self.client.take_outgoing())
        return list(iter(self.hub.next_event, NEED_DATA))

    def to_client(self, *frames: bytes) -> list[Event]:
        for frame in frames:
            self.hub.send(frame)
        return list(self.client.receive(self.hub.take_outgoing()))

    def greet(self) -> None:
        self.client.open()
        self.to_hub()
        assert self.to_client(HUB.encode()) == [HUB]


@pytest.fixture
def pair() -> Pair:
    both = Pair()
    both.greet()
    return both


def test_handshake() -> None:
    queue = QueueWish(messages=5, bytes=None, overflow=None)
    pair = Pair(Introduction("me", "secret", queue))
    pair.client.open()
    (hello,) = pair.to_hub()
    assert isinstance(hello, Hello)
    assert (hello.role, hello.name, hello.token, hello.queue) == ("client", "me", "secret", queue)
    assert pair.to_client(HUB.encode()) == [HUB]
    assert pair.hub.phase is Phase.WITH_CLIENT
    assert "secret" not in repr(Introduction("me", "secret"))


def test_requests(pair: Pair) -> None:
    verbs: list[Verb] = [
        SubscriptionChange(True, ["/a", "/b"], 7),
        SubscriptionChange(False, ["/c"], 0),
        ServiceChange(True, ["/s"], 8),
        ServiceChange(False, ["/s"], 9),
        RuleChange(True, [(("l",), "/a", "s.s")], 10),
        RuleChange(False, [(("l",), "/a", "s.s")], 11),
        NameClaim(12, Wish("a.b", ("l",), queue=True)),
        NameRelease(13, "a.b"),
        Renewal(14, "secret"),
        Fetch(15, 7, prefixes=("/a",)),
        Stage(16, "t", 1, b""),
        Commit(17, "t", "q", 3, [1]),
    ]
    for verb in verbs:
        pair.client.say(verb)
    assert pair.to_hub() == verbs
    notices = [Notice("confirmed", request=7), Notice("dropped", count=3)]
    assert pair.to_client(*map(encode_notice, notices)) == notices


def test_messages(pair: Pair) -> None:
    sink = NamedSink("all")
    pair.routes.add("/", sink)
    frames = [Batch.of("/a", [1]).frames, Batch.of("/b", [2, 3]).frames]
    pair.client.publish(frames)
    assert [run.frames for run in pair.to_hub() if isinstance(run, Run)] == frames
    pair.to_client(*frames)
    (delivered,) = pair.to_client(*frames)  # routes are known now: topics with the same sinks are one run
    assert isinstance(delivered, Run)
    assert delivered.route.sinks == (sink,)
    assert [message.value for message in decode_batch(delivered)[0]] == [1, 2, 3]


def test_signs_of_life(pair: Pair) -> None:
    assert pair.to_client(encode_frame(Kind.PING, b"x")) == []
    assert pair.client.take_outgoing() == encode_frame(Kind.PONG, b"x")
    pair.client.ping()
    pair.client.pong()
    assert [event for event in pair.to_hub() if event is not None] == []
    assert pair.hub.take_outgoing() == encode_frame(Kind.PONG, b"")
    assert pair.hub.phase is Phase.WITH_CLIENT


@pytest.mark.parametrize("by_client", [True, False])
def test_closing(pair: Pair, by_client: bool) -> None:  # noqa: FBT001
    if by_client:
        pair.client.close(CloseCode.DONE, "done")
        assert pair.to_hub() == [Closing(CloseCode.DONE, "done", by_far_side=True)]
    else:
        close = encode_close(CloseCode.OVERFLOW, "too slow")
        assert pair.to_client(close) == [Closing(CloseCode.OVERFLOW, "too slow", by_far_side=True)]
    assert pair.client.closed
    assert list(pair.client.receive(encode_frame(Kind.PING, b""))) == []


def test_not_a_hub() -> None:
    for answer, hint in ((b"HTTP/1.1 400 Bad Request\r\n", "try ws://"), (b"SSH-2.0-OpenSSH_9\r\n", "")):
        pair = Pair()
        pair.client.open()
        (closing,) = pair.client.receive(answer)
        assert isinstance(closing, Closing)
        assert "does not speak the hub's protocol" in closing.text
        assert hint in closing.text


def test_a_batch_that_contradicts_itself(pair: Pair) -> None:
    """A batch with a wrong count is passed over and told; the client does not complain to the hub."""
    bad = encode_frame(KIND_MESSAGES, b"\x00\x00\x00\x09\x01", key=b"/a", flags=FLAG_BATCH)
    assert pair.to_client(bad, bad) == [Unreadable(2)]
    assert pair.client.take_outgoing() == b""
    assert pair.to_client(bad) == [Unreadable(1)]
    assert not pair.client.closed
