"""`hub pub`: publish a value, lines from standard input, or the records of a file.

```
hub pub TOPIC VALUE          one message
hub pub TOPIC                each line of standard input, as it comes
hub pub TOPIC ARGS --zeek-event NAME     one Zeek event
... --label NAME --to NAME               with labels, or to the owner of a name
hub pub --ndjson FILE        each record of a file, its topic made from its fields; at full speed, a rate or its pace
```

It ends when the hub has taken everything: a round trip at the end also brings in what the hub has refused.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from hub.errors import RejectedError
from hub.topics import check_topic
from peers.cli.errors import FlagError
from peers.cli.feed import Beside, Feed
from peers.cli.lines import STDIN, InputError
from peers.cli.notices import Notices
from peers.cli.progress import shown_progress
from peers.cli.replay import (
    Replay,
    UnreadableError,
    decode_json,
    decode_record,
    decode_text,
    decode_value,
    flaw_of_json,
)
from peers.cli.stream_flags import RecordingFlags, StreamFlags
from peers.cli.template import Template
from peers.cli.texts import counted, escaped
from peers.cli.url import HubFlags
from peers.client import Client, connect

__all__ = ["pub"]

EXIT_REFUSED = 1
"""The hub has refused messages."""

_BARRIER = "$hub/nothing"
"""A prefix that no topic has. Subscribing to it and back are two round trips: what the hub says of the messages
before, it has said by then."""

_BARRIER_S = 10.0


def pub(  # noqa: PLR0913 -- one flag each
    topic: Annotated[str | None, Parameter(help="Topic of the message.")] = None,
    value: Annotated[
        str | None,
        Parameter(
            help="JSON if it reads as such, else text; without it, or -, each line of standard input is a message.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    text: Annotated[bool, Parameter(help="VALUE or each line is text, even if it reads as JSON.", negative=())] = False,
    json: Annotated[
        bool, Parameter(help="VALUE or each line must be JSON: what is none is an error, not text.", negative=())
    ] = False,
    file: Annotated[str | None, Parameter(help="Publish what this file holds, as bytes.")] = None,
    zeek_event: Annotated[
        str | None,
        Parameter(help="Publish a Zeek event of this name; VALUE is a JSON array of its arguments, see docs/zeek.md."),
    ] = None,
    label: Annotated[
        tuple[str, ...],
        Parameter(help="A label of the messages; again for another one. See docs/names-and-labels.md.", negative=()),
    ] = (),
    to: Annotated[str, Parameter(help="Name to whose owner alone the messages go.")] = "",
    stream: StreamFlags | None = None,
    recording: RecordingFlags | None = None,
) -> int:
    """Publish one message, lines from standard input, or the records of a file.

    Exit code 1 if something could not be published, or the hub has refused it.
    """
    if json and text:
        raise FlagError("--json and --text exclude each other")
    stream, recording = stream or StreamFlags(), recording or RecordingFlags()
    recording.check(stream)
    beside = Beside(label, to)
    path = recording.ndjson
    if path is not None:
        if topic is not None or text or file is not None:
            raise FlagError("with --ndjson the messages come from its file: leave TOPIC, VALUE, --text and --file out")
        fill = Template(recording.template or "").fill
        replay = Replay(decode_record, fill, recording.pace(stream), skip_bad=stream.skip_bad)
        return _run(hub, lambda client: _send(client, replay, stream, path, beside, again=recording.loop))
    if topic is None:
        raise FlagError("TOPIC is missing: hub pub TOPIC VALUE, or hub pub --ndjson FILE --topic TEMPLATE")
    topic = check_topic(topic)
    if zeek_event is not None:
        if text or file is not None or stream != StreamFlags():
            raise FlagError("--zeek-event takes TOPIC and VALUE only")
        from peers.cli.zeek_values import event_of  # noqa: PLC0415 -- 20 ms that others need not wait

        return _run(hub, _single(topic, event_of(zeek_event, value), beside))
    if file is None and value in {None, STDIN}:
        decode = decode_text if text else decode_json if json else decode_value
        replay = Replay(decode, lambda _: topic, recording.pace(stream), skip_bad=stream.skip_bad)
        return _run(hub, lambda client: _send(client, replay, stream, STDIN, beside))
    if stream != StreamFlags():
        raise FlagError("--rate, --limit and --skip-bad are for lines and records, not for a single value")
    return _run(hub, _single(topic, _value(value, file, as_text=text, as_json=json), beside))


def _single(topic: str, value: Any, beside: Beside) -> Callable[[Client], Coroutine[Any, Any, None]]:
    """Return what publishes one value."""

    async def publish(client: Client) -> None:
        await client.publish(topic, value, labels=beside.labels, to=beside.to)

    return publish


def _value(value: str | None, file: str | None, *, as_text: bool, as_json: bool) -> Any:
    """Return the one value to publish.

    Raises:
        UsageError: Two are given, or it cannot be read.
    """
    if value is None:
        try:
            return Path(file or "").read_bytes()
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    if file is not None:
        raise FlagError("VALUE and --file are both given: leave one out")
    given = os.fsencode(value)  # as it stood on the command line
    try:
        if as_text:
            return decode_text(given)
        if as_json:
            return decode_json(given)
        if flaw := flaw_of_json(given):
            print(
                escaped(f"hub pub: VALUE is published as text, because it is not valid JSON: {flaw}"), file=sys.stderr
            )
        return decode_value(given)
    except UnreadableError as error:
        raise FlagError(f"VALUE is {error}; --file publishes bytes") from error


def _run(hub: HubFlags, publish: Callable[[Client], Coroutine[Any, Any, None]]) -> int:
    """Connect, publish, and wait until the hub has taken it.

    Returns:
        The exit code.
    """

    async def connected() -> int:
        notices = Notices("pub")
        async with connect(hub.url, **notices.options(hub)) as client:
            await publish(client)
            await client.drain()
            if not await _reached(client):
                notices.say(f"the hub has not confirmed within {_BARRIER_S:g} s that it has read everything")
            statistics = client.statistics()
        lost = statistics.rejected_messages + statistics.unsent_messages
        if lost:
            notices.say(f"the hub refused {counted(lost, 'message')}: {notices.rejection}")
        return EXIT_REFUSED if lost else 0

    return asyncio.run(connected())


async def _reached(client: Client) -> bool:
    """Wait until the hub has read what was published, and has said what it has to say of it."""
    try:
        async with asyncio.timeout(_BARRIER_S):
            with suppress(RejectedError):
                barrier = client.subscribe(_BARRIER)
                await barrier.open()
                await barrier.close()
    except TimeoutError:
        return False
    return True


async def _send(  # noqa: PLR0913 -- of the command's flags
    client: Client, replay: Replay, stream: StreamFlags, path: str, beside: Beside, *, again: bool = False
) -> None:
    """Send what a file or standard input holds, and print the account."""
    feed = Feed(client, replay, limit_messages=stream.limit, beside=beside)
    try:
        async with shown_progress(feed.progress):
            await feed.send(path, again=again)
            await client.drain()
    except BaseException:
        if feed.sent_messages:
            print(feed.summary(), flush=True)
        raise
    print(feed.summary(), flush=True)
