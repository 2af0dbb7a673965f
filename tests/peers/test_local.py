"""Publishers and subscribers in the hub's own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hub.batch import Batch, Message
from hub.core import Core
from hub.errors import BusyError, CloseCode, ClosedError, ConnectionLostError, InvalidTopicError, RejectedError
from hub.events import Event
from hub.frame import KIND_MESSAGES, encode_frame
from hub.overflow import Overflow, QueueLimits
from peers.client.values import BadMessage, InvalidValueError
from peers.local import LocalCallback, LocalPublisher, LocalSubscriber
from peers.wire.hello import FRAME_LIMIT_BYTES


@pytest.fixture
async def core() -> Core:
    """A core that writes at the end of each turn of the loop."""
    loop = asyncio.get_running_loop()
    made: Core = Core(lambda: loop.call_soon(made.flush))
    return made


@pytest.fixture
async def publisher(core: Core) -> AsyncIterator[LocalPublisher]:
    """A publisher, closed at the end."""
    made = LocalPublisher(core, name="publisher")
    yield made
    made.close()


async def test_stream(core: Core, publisher: LocalPublisher) -> None:
    """A subscriber gets what is under its prefixes, in order, as values of its own."""
    value: dict[str, Any] = {"a": [1]}
    with LocalSubscriber(core, ["/a", "/b"], name="subscriber") as messages, LocalSubscriber(core, ["/"]) as all_of_it:
        publisher.publish_nowait("/a", value)
        publisher.publish_nowait("/c", 2)
        publisher.publish_nowait("/b", 3)
        first = await anext(messages)
        assert first == Message("/a", value)
        first.value["a"].append("mine")
        assert (await anext(all_of_it)).value == value == {"a": [1]}
        assert (await anext(messages)) == Message("/b", 3)
        assert messages.handler.name == "subscriber"
        assert len(core.handlers) == 3
    assert len(core.handlers) == 1
    assert core.routes.find("/a").handlers == ()
    assert [message async for message in messages] == []


async def test_one_turn_is_one_batch(core: Core, publisher: LocalPublisher) -> None:
    """What is published to one topic in a turn is routed as one batch."""
    with LocalSubscriber(core, ["/"]) as messages:
        for number in range(100):
            publisher.publish_nowait("/a", number)
        assert [message.value for message in await messages.batch()] == list(range(100))
        assert publisher.handler.published_messages == 100
        publisher.publish_nowait("/a", bytes(300_000))
        assert core.handler_statistics()[0].published_messages == 101, "a lot does not wait for the end of the turn"
        assert len((await anext(messages)).value) == 300_000


@pytest.mark.parametrize("overflow", [Overflow.DROP_OLDEST, Overflow.DROP_NEWEST])
async def test_overflow(core: Core, publisher: LocalPublisher, overflow: Overflow) -> None:
    """A subscriber that does not read loses what its policy says, and is told how much where it is missing."""
    limits = QueueLimits(messages=10, overflow=overflow)
    with LocalSubscriber(core, ["/"], limits) as messages:
        for number in range(100):
            publisher.publish_nowait("/a", number)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        got: list[tuple[int, int]] = []
        while messages.handler.statistics().queued_messages or not got:
            got += [(message.value, messages.lost_messages) for message in await messages.batch()]
        publisher.publish_nowait("/a", 100)
        while got[-1][0] != 100:
            got += [(message.value, messages.lost_messages) for message in await messages.batch()]
    assert all(number == position + lost for position, (number, lost) in enumerate(got))
    lost = messages.handler.dropped_messages
    assert len(got) + lost == 101
    assert lost > 80
    assert got[-1] == (100, lost)
    held = [number for number, _ in got[-11:-1]]
    assert held == (list(range(90, 100)) if overflow is Overflow.DROP_OLDEST else list(range(held[0], held[0] + 10)))


async def test_disconnected(core: Core, publisher: LocalPublisher) -> None:
    """With the policy `disconnect` the subscriber leaves the hub; reading ends with the reason."""
    with LocalSubscriber(core, ["/"], QueueLimits(messages=10, overflow=Overflow.DISCONNECT)) as messages:
        for number in range(50):
            publisher.publish_nowait("/a", number)
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert messages.handler.id not in core.handlers
        got = await messages.batch()
        assert got[0].value == 0
        with pytest.raises(ConnectionLostError, match="queue full") as caught:
            await anext(messages)
        assert caught.value.code == CloseCode.OVERFLOW


async def test_callback(core: Core, publisher: LocalPublisher) -> None:
    """A function is called with each message; when it fails that is reported, and it is called for the next."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    got: asyncio.Queue[Message] = asyncio.Queue()

    def function(message: Message) -> None:
        got.put_nowait(message)
        if message.value == 1:
            raise ZeroDivisionError

    callback = LocalCallback(core, ["/a"], function, name="callback")
    for number in range(3):
        publisher.publish_nowait("/a", number)
    assert [(await got.get()).value for _ in range(3)] == [0, 1, 2]
    assert isinstance(failures[0]["exception"], ZeroDivisionError)
    publisher.publish_nowait("/a", 3)
    callback.unsubscribe()
    for _ in range(5):
        await asyncio.sleep(0)
    assert got.empty()
    assert len(core.handlers) == 1


async def test_a_callback_that_publishes(core: Core, publisher: LocalPublisher) -> None:
    """A function that publishes what it gets does not keep the loop from anything else."""
    count = 0

    def again(message: Message) -> None:
        nonlocal count
        count += 1
        core.publish_local("/a", [message.value + 1])

    callback = LocalCallback(core, ["/a"], again)
    publisher.publish_nowait("/a", 0)
    for _ in range(100):
        await asyncio.sleep(0)
    assert 1 < count < 101
    callback.unsubscribe()


async def test_a_callback_stops_in_the_middle(core: Core, publisher: LocalPublisher) -> None:
    """A function that unsubscribes is not called for what came in the same batch."""
    got = []

    def first_only(message: Message) -> None:
        got.append(message.value)
        callback.unsubscribe()

    callback = LocalCallback(core, ["/a"], first_only)
    for number in range(3):
        publisher.publish_nowait("/a", number)
    for _ in range(5):
        await asyncio.sleep(0)
    assert got == [0]


async def test_a_callback_that_is_too_slow(core: Core, publisher: LocalPublisher) -> None:
    """What comes while the function has not been called is bounded by the queue and its policy."""
    got: list[int] = []
    callback = LocalCallback(core, ["/a"], lambda message: got.append(message.value), QueueLimits(messages=10))
    for number in range(5):
        publisher.publish_nowait("/a", [number, bytes(100_000)])
    for _ in range(5):
        await asyncio.sleep(0)
    got.clear()
    for turn in range(30):
        core.publish_local("/a", [turn])
        core.flush()
    for _ in range(10):
        await asyncio.sleep(0)
    assert got == [0, *range(20, 30)]
    assert callback.lost_messages == 19
    callback.unsubscribe()
    disconnected = LocalCallback(core, ["/a"], print, QueueLimits(messages=1, overflow=Overflow.DISCONNECT))
    for turn in range(5):
        core.publish_local("/a", [turn])
        core.flush()
    assert isinstance(disconnected.error, ConnectionLostError)
    assert disconnected.handler.id not in core.handlers


async def test_bad_values(core: Core) -> None:
    """What is not msgpack is counted and told; the rest is delivered."""
    bad: list[BadMessage] = []
    heard: list[Message] = []
    callback = LocalCallback(core, ["/a"], heard.append)
    with LocalSubscriber(core, ["/a"], on_bad_message=bad.append) as messages, LocalSubscriber(core, ["/a"]) as silent:
        for handler in core.routes.find("/a").handlers:
            handler.offer(Batch(encode_frame(KIND_MESSAGES, b"\xc1", key=b"/a"), 1))
        core.publish_local("/a", ["good"])
        assert (await anext(messages)).value == "good"
        assert (await anext(silent)).value == "good"
        assert [(each.topic, each.body) for each in bad] == [("/a", b"\xc1")]
        assert messages.bad_messages == silent.bad_messages == 1
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(heard) == 1
    assert callback.bad_messages == 1


async def test_other_threads(core: Core) -> None:
    """Any thread may publish; the order of each is kept."""
    publisher = LocalPublisher(core, mailbox_bytes=10_000_000)

    def publish(thread: int) -> None:
        for number in range(1000):
            publisher.publish_threadsafe(f"/{thread}", number)

    got: list[Message] = []
    with LocalSubscriber(core, ["/"]) as messages, ThreadPoolExecutor() as pool:
        loop = asyncio.get_running_loop()
        threads = [loop.run_in_executor(pool, publish, thread) for thread in range(3)]
        while len(got) < 3000:
            got += await messages.batch()
        await asyncio.gather(*threads)
    for thread in range(3):
        assert [message.value for message in got if message.topic == f"/{thread}"] == list(range(1000))
    publisher.close()


async def test_a_loop_that_is_behind(core: Core) -> None:
    """What other threads may have on the way is bounded; what was taken is published before the publisher closes."""
    publisher = LocalPublisher(core, mailbox_bytes=10_000)
    with LocalSubscriber(core, ["/"]) as messages:
        for _ in range(9):
            publisher.publish_threadsafe("/a", bytes(900))
        with pytest.raises(BusyError):
            publisher.publish_threadsafe("/a", bytes(900))
        publisher.close()
        publisher.close()
        assert len(await messages.batch()) == 9
    with pytest.raises(ClosedError):
        publisher.publish_threadsafe("/a", 1)
    with pytest.raises(ClosedError):
        publisher.publish_nowait("/a", 1)


async def test_refused(core: Core, publisher: LocalPublisher) -> None:
    """Bad topics, prefixes and values are refused by the call, and leave nothing behind."""
    before = len(core.handlers)
    with pytest.raises(InvalidTopicError):
        LocalSubscriber(core, ["/a\x00"])
    with pytest.raises(InvalidTopicError):
        LocalCallback(core, ["/a\x00"], print)
    assert len(core.handlers) == before
    for publish in (publisher.publish_nowait, publisher.publish_threadsafe):
        with pytest.raises(InvalidTopicError):
            publish("$hub/x", 1)
        with pytest.raises(InvalidValueError):
            publish("/a", object())
        with pytest.raises(RejectedError) as caught:
            publish("/a", bytes(FRAME_LIMIT_BYTES))
        assert caught.value.code == CloseCode.TOO_BIG


async def test_events(core: Core) -> None:
    """Subscribers in this process hear what the hub says of itself, and are no clients."""
    with LocalSubscriber(core, ["$hub/"]) as messages:
        with LocalSubscriber(core, ["/a"]):
            pass
        core.announce(Event("$hub/overflow", {}))
        assert (await anext(messages)).topic == "$hub/overflow"
