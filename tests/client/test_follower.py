"""Streams that begin in the journal and go on live, over real sockets: the seam, losses, and how they end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hub.errors import (
    CloseCode,
    ClosedError,
    ConnectionLostError,
    GoneError,
    InvalidTopicError,
    JournalUnavailableError,
    RejectedError,
    UsageError,
)
from hub.overflow import Overflow
from peers.client import MessageStream, QueueWish, RecordedMessage, blocking, connect
from peers.client.following import Phase
from tests.client.recording import Publishing, Reading, RecordingHub
from tests.client.told import Told, quick_backoff
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub

StartRecording = Callable[..., Awaitable[RecordingHub]]


@pytest.fixture(params=["tcp", "ws"])
def listen_url(request: pytest.FixtureRequest) -> str:
    """Where to listen, over each protocol."""
    return f"{request.param}://127.0.0.1:0"


@pytest.fixture
async def start_recording(tmp_path: Path, listen_url: str) -> AsyncIterator[StartRecording]:
    """Start hubs with a journal, over each transport; all are stopped when the test is over."""
    uncaught: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: uncaught.append(context))
    hubs: list[RecordingHub] = []

    async def start(url: Any = listen_url, *, file: str = "journal", **journal: Any) -> RecordingHub:
        hub = RecordingHub(tmp_path / file, **journal)
        await hub.start(url)
        hubs.append(hub)
        return hub

    yield start
    for hub in hubs:
        await hub.stop()
    assert not uncaught


@pytest.fixture
async def hub(start_recording: StartRecording) -> RecordingHub:
    """One hub with a journal."""
    return await start_recording()


def phase_of(stream: MessageStream) -> Phase:
    """Where a stream stands."""
    state: Any = stream._source
    phase: Phase = state._state.phase
    return phase


# The seam.


@pytest.mark.parametrize("seed", range(2))
async def test_everything_once_while_somebody_publishes(hub: RecordingHub, seed: int) -> None:
    """Many streams that begin anywhere, with small buffers and large, quick and slow: each sees all, in order."""
    source = random.Random(seed)  # noqa: S311 -- to be repeated

    async def read(reader: Any, begin: int) -> None:
        size = source.choice([1_000, 20_000, 1_000_000])
        async with reader.subscribe("/n/", from_offset=begin, buffer_bytes=size) as messages:
            reading = Reading(messages, begin)
            publishing.readers.append(reading)
            for goal in (1_000, 2_000, 4_000):
                await reading.until(goal)
                for _ in range(source.randrange(50)):
                    await asyncio.sleep(0)
            while size == 1_000_000 and phase_of(messages) is not Phase.LIVE:
                await reading.some()
            assert (reading.holes, messages.breaks, messages.lost_messages) == (0, 0, 0)
            publishing.readers.remove(reading)

    async with connect(hub.url) as client, connect(hub.url) as reader:
        publishing = Publishing(client)
        await publishing.some(500)
        async with publishing:
            await asyncio.gather(*(read(reader, source.choice([0, 7, 400, 499])) for _ in range(8)))


async def test_topics_that_are_filtered(hub: RecordingHub) -> None:
    """Offsets are those of all that is recorded; a stream sees its topics only, on both sides of the seam."""
    async with connect(hub.url) as client, connect(hub.url) as reader:
        publishing = Publishing(client, "/n/a", "/n/b", "/n/c", "/m")
        await publishing.some(400)
        async with publishing, reader.subscribe("/n/b", "/m", from_offset=100) as messages:
            read = [await anext(messages) for _ in range(3_000)]
    assert [message.value for message in read] == [number for number in range(100, 6_100) if number % 4 in {1, 3}]
    assert {message.topic for message in read} == {"/n/b", "/m"}


async def test_overlapping_subscriptions_of_one_client(hub: RecordingHub) -> None:
    """Other streams of the client, of the same prefix or of others around it, add nothing and take nothing away."""
    async with connect(hub.url) as client, connect(hub.url) as reader:
        publishing = Publishing(client)
        await publishing.some(100)
        async with (
            reader.subscribe("/n/", buffer_bytes=1),
            reader.subscribe("/", "/n/1", from_offset=50) as one,
            reader.subscribe("/n/", from_offset=0) as other,
            publishing,
        ):
            publishing.readers = [Reading(one, 50), Reading(other)]
            await asyncio.gather(*(each.until(3_000) for each in publishing.readers))


async def test_what_the_journal_does_not_record(start_recording: StartRecording) -> None:
    """Live includes it, history does not."""
    hub = await start_recording(topics=("/n",))
    async with connect(hub.url) as client:
        await client.publish("/other", 0)
        await client.publish_confirmed("/n", 1)
        async with client.subscribe("/", from_offset=0) as messages:
            assert (await anext(messages)).value == 1
            await eventually(lambda: phase_of(messages) is Phase.LIVE)
            client.publish_nowait("/other", 2)
            client.publish_nowait("/n", 3)
            assert [(await anext(messages)).value for _ in range(2)] == [2, 3]


async def test_from_the_end(hub: RecordingHub) -> None:
    """A stream that begins at the end of the journal has no history."""
    async with connect(hub.url) as client:
        assert await client.publish_confirmed("/n", 0) == 0
        async with client.subscribe("/n", from_offset=1) as messages:
            await client.publish("/n", 1)
            assert (await anext(messages)).value == 1


async def test_offsets_of_all_that_comes(hub: RecordingHub) -> None:
    """A stream of what is recorded gives each message with its offset, also over connections that are lost."""
    async with connect(hub.url, backoff=quick_backoff()) as client, connect(hub.url) as publisher:
        await publisher.publish_confirmed("/n/before", 0)
        async with client.subscribe("/n/", recorded=True) as messages:
            for number in range(1, 4):
                await publisher.publish_confirmed(f"/n/{number}", number)
                message = await messages.receive()
                assert isinstance(message, RecordedMessage)
                assert (message.offset, message.topic, message.value) == (number, f"/n/{number}", number)
                assert message.time_us > 0
            assert messages.live
            await hub.crash()
            async with connect(hub.url) as another:
                await another.publish_confirmed("/n/after", 4)
            assert (await messages.receive()).offset == 4  # type: ignore[attr-defined]
            assert (messages.breaks, messages.lost_messages) == (0, 0)
        async with client.subscribe("/n/", from_offset=2, recorded=True) as messages:
            assert [(await messages.receive()).value for _ in range(3)] == [2, 3, 4]


async def test_an_empty_journal(hub: RecordingHub) -> None:
    """There is nothing to read, and it is live at once."""
    async with connect(hub.url) as client, client.subscribe("/n", from_offset=0) as messages:
        await eventually(lambda: phase_of(messages) is Phase.LIVE)
        await client.publish("/n", 1)
        assert (await anext(messages)).value == 1


async def test_from_a_time(hub: RecordingHub) -> None:
    """The first message is the first record that is not older; a time without a zone is local."""
    async with connect(hub.url) as client:
        await Publishing(client).some(10)
        times = [record.time_us async for record in client.read()]
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=times[-1])
        expected = times.index(times[-1])
        for time in (at, at.astimezone().replace(tzinfo=None)):
            async with client.subscribe("/n/", from_time=time) as messages:
                assert messages.position == expected
                assert (await anext(messages)).value == expected
        async with client.subscribe("/n/", from_time=datetime(1970, 1, 2, tzinfo=UTC)) as messages:
            await Reading(messages).until(9)


# Losses.


@pytest.mark.parametrize("seed", range(2))
async def test_connections_that_are_cut(hub: RecordingHub, seed: int) -> None:
    """Cut at random, in the history, at the seam, and live: nothing comes twice, and what is missing is told."""
    source = random.Random(seed)  # noqa: S311 -- to be repeated

    async def read(reader: Any) -> None:
        async with reader.subscribe("/n/", from_offset=0, buffer_bytes=source.choice([2_000, 1_000_000])) as messages:
            reading = Reading(messages)
            publishing.readers.append(reading)
            for goal in range(0, 6_000, 200):
                await reading.until(goal)
                hub.abort(source, "reader")
            publishing.readers.remove(reading)

    async with (
        connect(hub.url) as client,
        connect(hub.url, name="reader", backoff=quick_backoff()) as reader,
    ):
        publishing = Publishing(client)
        await publishing.some(2_000)
        async with publishing:
            await asyncio.gather(*(read(reader) for _ in range(4)))


async def test_cut_before_it_is_live(hub: RecordingHub) -> None:
    """As long as a stream is not live, no loss of a connection is told: the journal has it all."""
    source = random.Random(1)  # noqa: S311 -- to be repeated
    async with (
        connect(hub.url) as client,
        connect(hub.url, name="reader", backoff=quick_backoff()) as reader,
    ):
        await Publishing(client).some(5_000)
        async with reader.subscribe("/n/", from_offset=0, buffer_bytes=1) as messages:
            reading = Reading(messages)
            while reading.next < 4_900:
                hub.abort(source, "reader")
                reading.take([message.value for message in await messages.batch()])
            await reading.until(4_999)
            assert (messages.breaks, reading.holes) == (0, 0)


async def test_a_connection_that_has_brought_nothing(hub: RecordingHub) -> None:
    """When what is live is lost before a message has come, the stream goes on without a break."""
    async with (
        connect(hub.url) as client,
        connect(hub.url, name="reader", backoff=quick_backoff()) as reader,
        reader.subscribe("/n", from_offset=0) as messages,
    ):
        for _ in range(5):
            await eventually(lambda: phase_of(messages) is Phase.LIVE)
            for connection in [one for one in hub.node.connections if _name(one) == "reader"]:
                connection.abort()
            await eventually(lambda: phase_of(messages) is not Phase.LIVE)
        assert await client.publish_confirmed("/n", 1) == 0
        assert (await anext(messages)).value == 1
        assert messages.breaks == 0


async def test_a_connection_that_has_brought_something(hub: RecordingHub) -> None:
    """Then nobody knows what is missing: it is told where it happened, and the stream goes on."""
    async with (
        connect(hub.url) as client,
        connect(hub.url, name="reader", backoff=quick_backoff()) as reader,
        reader.subscribe("/n", from_offset=0) as messages,
    ):
        await eventually(lambda: phase_of(messages) is Phase.LIVE)
        client.publish_nowait("/n", 1)
        assert (await anext(messages)).value == 1
        for connection in [one for one in hub.node.connections if _name(one) == "reader"]:
            connection.abort()
        await eventually(lambda: phase_of(messages) is not Phase.LIVE)
        assert messages.breaks == 0
        await eventually(lambda: phase_of(messages) is Phase.LIVE)
        client.publish_nowait("/n", 2)
        assert (await anext(messages)).value == 2
        assert (messages.breaks, messages.position) == (1, 0)


def _name(connection: object) -> str:
    handler = getattr(connection, "handler", None)
    return handler.name if handler is not None else ""


async def test_a_hub_that_restarts(start_recording: StartRecording, hub: RecordingHub) -> None:
    """In the middle of the history: the stream goes on with the new hub, as if nothing had happened."""
    async with connect(hub.url) as client:
        await Publishing(client).some(20_000)
    async with (
        connect(hub.url, backoff=quick_backoff()) as reader,
        reader.subscribe("/n/", from_offset=0, buffer_bytes=10) as messages,
    ):
        reading = Reading(messages)
        reading.take([message.value for message in await messages.batch()])
        assert reading.next < 20_000
        await hub.stop()
        again = await start_recording(hub.endpoint)
        await reading.until(19_999)
        async with connect(again.url) as client:
            await client.publish("/n/x", 20_000)
            await reading.until(20_000)
        assert messages.breaks == 0


async def test_a_hub_with_another_journal(start_recording: StartRecording, hub: RecordingHub) -> None:
    """Its offsets mean something else: the stream ends with an error, behind what had come."""
    async with connect(hub.url) as client:
        await Publishing(client).some(20_000)
    async with (
        connect(hub.url, backoff=quick_backoff()) as reader,
        reader.subscribe("/n/", from_offset=0, buffer_bytes=10) as messages,
    ):
        await hub.stop()
        await start_recording(hub.endpoint, file="another")
        reading = Reading(messages)
        with pytest.raises(RejectedError, match="another journal") as caught:
            await reading.until(19_999)
        assert caught.value.code == CloseCode.GONE
        assert reading.next > 0


async def test_what_the_hub_drops(hub: RecordingHub) -> None:
    """Once a stream is live, a reader that is too slow for its queue loses messages, and is told, as every other."""
    told = Told()
    wish = QueueWish(messages=5)
    async with (
        connect(hub.url) as client,
        told.connect(hub.url, name="reader", queue=wish) as reader,
        reader.subscribe("/n", from_offset=0, buffer_bytes=1_000) as messages,
    ):
        await eventually(lambda: phase_of(messages) is Phase.LIVE)
        handlers = [one for one in hub.node.core.handlers.values() if one.name == "reader" and one.prefixes]
        while not handlers[0].dropped_messages:
            await client.publish("/n", ["x" * 10_000])
            await client.drain()
        while not messages.lost_messages:
            await anext(messages)
        assert messages.lost_messages == await told.dropped.get()
        assert reader.dropped_messages >= messages.lost_messages


async def test_a_slow_reader_that_is_live(hub: RecordingHub) -> None:
    """It stops reading when its buffer is full; what its queue in the hub holds is not lost."""
    async with connect(hub.url) as client, connect(hub.url, name="reader") as reader:
        publishing = Publishing(client)
        await publishing.some(10)
        async with reader.subscribe("/n/", from_offset=0, buffer_bytes=2_000) as messages:
            reading = Reading(messages)
            await eventually(lambda: phase_of(messages) is Phase.LIVE)
            await publishing.some(5_000)
            assert messages.buffered_bytes < 1_000_000
            await reading.until(5_009)
            assert reading.holes == 0


# Where it cannot begin, or not go on.


async def test_a_start_that_is_not_there(hub: RecordingHub) -> None:
    """Behind the end: entering raises, with the oldest offset that is there."""
    async with connect(hub.url) as client:
        await client.publish_confirmed("/n", 0)
        with pytest.raises(GoneError, match="behind the end") as caught:
            await client.subscribe("/n", from_offset=2).open()
        assert caught.value.first == 0
    await eventually(lambda: not hub.node.connections)


async def test_a_start_that_was_deleted(start_recording: StartRecording) -> None:
    """A reader is never served silently from elsewhere: at once, or where it was overtaken, it is told."""
    hub = await start_recording(keep_bytes=64 * 1024, compression="none")
    async with connect(hub.url) as client:
        await client.publish_confirmed("/n", 0)
        async with client.subscribe("/n", from_offset=0, buffer_bytes=1) as messages:
            first = 0
            number = 1
            while not first:
                await client.publish_confirmed("/n", [number, "x" * 10_000])
                first = (await client.journal()).first
                number += 1
            with pytest.raises(GoneError) as caught:
                await client.subscribe("/n", from_offset=0).open()
            assert caught.value.first >= first
            assert (await anext(messages)).value == 0
            with pytest.raises(GoneError, match="was deleted"):
                await _read_on(messages)


@pytest.mark.parametrize("overflow", list(Overflow))
async def test_a_slow_reader_of_what_is_recorded(hub: RecordingHub, overflow: Overflow) -> None:
    """It has no queue in the hub: nothing is lost, and nobody is disconnected, whatever it had asked for."""
    wish = QueueWish(1, None, overflow)
    async with (
        connect(hub.url) as client,
        connect(hub.url, name="reader", queue=wish) as reader,
        reader.subscribe("/n", recorded=True, buffer_bytes=1) as messages,
    ):
        for number in range(300):
            await client.publish("/n", [number, "x" * 1_000])
        await client.publish_confirmed("/n", [300, ""])
        found = 0
        while found <= 300:
            for message in await messages.batch():
                assert message.value[0] == found
                found += 1
        assert messages.lost_messages == 0


async def test_a_slow_reader_of_what_is_recorded_that_retention_overtakes(start_recording: StartRecording) -> None:
    """It is told, and where what is kept begins; what it had read before stands in its position."""
    hub = await start_recording(keep_bytes=64 * 1024, compression="none")
    async with connect(hub.url) as client, client.subscribe("/n", recorded=True, buffer_bytes=1) as messages:
        await client.publish_confirmed("/n", [0, ""])
        assert (await anext(messages)).value[0] == 0
        first = number = 0
        while first < 5:
            number += 1
            await client.publish_confirmed("/n", [number, "x" * 10_000])
            first = (await client.journal()).first
        with pytest.raises(GoneError) as caught:
            await _read_on(messages)
        assert 0 < caught.value.first <= (await client.journal()).first  # where that began when it was told


async def _read_on(messages: MessageStream) -> None:
    """Read to the end."""
    while await messages.batch():
        pass


async def test_without_a_journal(start_hub: StartHub, listen_url: str) -> None:
    """Entering raises."""
    hub = await start_hub(listen_url)
    async with connect(hub.url) as client:
        with pytest.raises(RejectedError, match="has no journal"):
            await client.subscribe("/n", from_offset=0).open()


async def test_a_journal_that_is_not_written(hub: RecordingHub) -> None:
    """History can be read; where it should become live it ends with an error, since there is no seam."""
    async with connect(hub.url) as client:
        await client.publish_confirmed("/n", 0)
        hub.journal._recorder._probing = None
        hub.journal._recorder._failed_now(JournalUnavailableError("the disk is full"), 1)
        async with client.subscribe("/n", from_offset=0) as messages:
            assert (await anext(messages)).value == 0
            with pytest.raises(RejectedError, match="cannot be written now") as caught:
                await anext(messages)
            assert caught.value.code == CloseCode.JOURNAL_FAILED


async def test_bad_arguments(hub: RecordingHub) -> None:
    """Two beginnings, one before the first, prefixes that are none."""
    async with connect(hub.url) as client:
        now = datetime.now(UTC)
        for prefixes, options in (
            (("/n",), {"from_offset": 0, "from_time": now}),
            (("/n",), {"from_offset": -1}),
            ((), {"from_offset": 0}),
        ):
            with pytest.raises(UsageError):
                client.subscribe(*prefixes, **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidTopicError):
            await client.subscribe("/\0", from_offset=0).open()
        stream = client.subscribe("/n", from_offset=0)
        await stream.open()
        with pytest.raises(UsageError, match="opened once"):
            await stream.open()
        await stream.close()


async def test_without_reconnecting(hub: RecordingHub) -> None:
    """With `reconnect=False` the first loss ends the stream, in the history and live."""
    async with connect(hub.url, reconnect=False) as reader:
        async with reader.subscribe("/n", from_offset=0) as messages:
            await eventually(lambda: phase_of(messages) is Phase.LIVE)
            await hub.crash()
            with pytest.raises(ConnectionLostError):
                await anext(messages)
        with pytest.raises(ConnectionLostError):
            await reader.subscribe("/n", from_offset=0).open()


async def test_threads(hub: RecordingHub) -> None:
    """The blocking client has the same."""

    def read() -> list[int]:
        with blocking.connect(hub.url) as client:
            with pytest.raises(GoneError), client.subscribe("/n/", from_offset=10_000):
                pass
            with client.subscribe("/n/", from_time=datetime(1970, 1, 2, tzinfo=UTC)) as messages:
                assert messages.receive().value == 0
            with client.subscribe("/n/", from_offset=400) as messages:
                assert messages.position == 400
                values = [messages.receive().value for _ in range(100)]
                client.publish("/n/x", 500)
                values.append(messages.receive().value)
                assert messages.position == 500
                return values

    async with connect(hub.url) as client:
        await Publishing(client).some(500)
    assert await asyncio.to_thread(read) == list(range(400, 501))


# Where it stands.


async def test_position(hub: RecordingHub) -> None:
    """What is recorded before it was read; who subscribes from there misses nothing, and reads little again."""
    async with connect(hub.url) as client:
        await Publishing(client).some(9_000)
        position, read = 0, 0
        again = 0
        while position < 9_000:
            async with client.subscribe("/n/", from_offset=position, buffer_bytes=200) as messages:
                assert messages.position == position
                for number in range(position, min(position + 2_000, 9_000)):
                    assert (await anext(messages)).value == number
                    read = max(read, number + 1)
                if read == 9_000:
                    break
                assert messages.position is not None
                assert position <= messages.position <= read
                again += read - messages.position
                position = messages.position + 1_500 if messages.position == position else messages.position
        assert read == 9_000


async def test_position_when_everything_was_read(hub: RecordingHub) -> None:
    """A reader that waits has read it all; once live the position stays at the seam."""
    async with connect(hub.url) as client:
        await Publishing(client).some(100)
        async with client.subscribe("/n/", from_offset=0) as messages, client.subscribe("/n/") as plain:
            assert (plain.position, plain.live) == (None, True)
            await Reading(messages).until(99)
            waiting = asyncio.ensure_future(messages.batch())
            await eventually(lambda: messages.position == 100)
            await eventually(lambda: messages.live)
            await client.publish("/n/", 100)
            assert [message.value for message in await waiting] == [100]
            assert messages.batch_nowait() == []
            assert messages.position == 100


# Ends.


async def test_closing(hub: RecordingHub) -> None:
    """Whoever closes a stream has no connection left but the client's own; the client takes the others along."""
    async with connect(hub.url, name="reader") as client:
        await Publishing(client).some(20_000)
        for buffer_bytes in (1, 1_000_000):
            stream = client.subscribe("/n/", from_offset=0, buffer_bytes=buffer_bytes)
            await stream.open()
            await stream.batch()
            await stream.close()
            await eventually(lambda: len(hub.node.connections) == 1)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        left_open = client.subscribe("/n/", from_offset=0)
        await left_open.open()
        await client.subscribe("/n/", from_offset=0).open()
    assert not client._exchange.followers
    await eventually(lambda: not hub.node.connections)
    await _read_on(left_open)
    with pytest.raises(ClosedError):
        await client.subscribe("/n/", from_offset=0).open()


async def test_closing_while_it_is_entered(hub: RecordingHub) -> None:
    """Whoever waits for the first piece when the client is closed is told; who gives up leaves nothing behind."""
    client = await connect(hub.url)
    opening = asyncio.ensure_future(client.subscribe("/n", from_offset=0).open())
    giving_up = asyncio.ensure_future(client.subscribe("/n", from_offset=0).open())
    await asyncio.sleep(0)
    giving_up.cancel()
    await asyncio.wait([giving_up])
    await client.close()
    with pytest.raises(ClosedError):
        await opening
    await eventually(lambda: not hub.node.connections)


async def test_entering_without_a_connection(start_recording: StartRecording, hub: RecordingHub) -> None:
    """It waits until the hub is back."""
    told = Told()
    async with told.connect(hub.url) as client:
        await hub.stop()
        await told.disconnected.get()
        stream = client.subscribe("/n", from_offset=0)
        opening = asyncio.ensure_future(stream.open())
        await asyncio.sleep(0.01)
        again = await start_recording(hub.endpoint)
        await opening
        async with connect(again.url) as publisher:
            await publisher.publish("/n", 1)
            assert (await anext(stream)).value == 1


async def test_a_client_that_ends(hub: RecordingHub) -> None:
    """A client that ends with an error takes its streams along: they raise it."""
    async with connect(hub.url, name="me") as client, client.subscribe("/n", from_offset=0) as messages:
        await eventually(lambda: phase_of(messages) is Phase.LIVE)
        client._exchange.gave_up(RejectedError(CloseCode.NOT_ALLOWED, "so it is"))
        with pytest.raises(RejectedError, match="so it is"):
            await anext(messages)


async def test_a_bug(hub: RecordingHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens inside, who reads the stream does not wait for ever."""
    from hub.errors import InternalError
    from peers.client import follower

    def fail(_: bytes) -> list[tuple[bytes, int]]:
        raise ZeroDivisionError

    async with connect(hub.url) as client:
        await client.publish_confirmed("/n", 1)
        monkeypatch.setattr(follower, "recorded_batches", fail)
        with pytest.raises(InternalError, match="ZeroDivisionError"):
            await client.subscribe("/n", from_offset=0).open()
