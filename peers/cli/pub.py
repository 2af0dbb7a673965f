"""`hub pub`: publish a value, lines from standard input, or the records of a file."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from hub.errors import BusyError, CloseCode, InvalidTopicError, RejectedError
from hub.topics import check_topic
from peers.cli.contexts import DEFAULT_HUB, HubFlags
from peers.cli.lines import STDIN, Input, InputError
from peers.cli.notices import Notices
from peers.cli.output import Progress, shown_progress
from peers.cli.replay import (
    Pace,
    Recorded,
    Replay,
    Schedule,
    UnreadableError,
    decode_json,
    decode_record,
    decode_text,
    decode_value,
    flaw_of_json,
    template,
)
from peers.cli.texts import FlagError, check_count, check_positive, counted, escaped
from peers.client import Client, InvalidValueError


@Parameter(name="*")
@dataclass
class StreamFlags:
    """Flags of a stream of messages."""

    rate: Annotated[float | None, Parameter(help="Messages a second. Default: as fast as possible.")] = None
    limit: Annotated[int | None, Parameter(help="Stop after this number of messages.")] = None
    skip_bad: Annotated[bool, Parameter(help="Count lines that cannot be published, and continue.")] = False

    def __post_init__(self) -> None:
        check_positive("--rate", self.rate, "messages a second")
        check_count("--limit", self.limit)


@Parameter(name="*")
@dataclass
class RecordingFlags:
    """Flags of a recording."""

    ndjson: Annotated[
        str | None,
        Parameter(
            help="File of JSON objects, one a line, plain or gzip; - is standard input.", allow_leading_hyphen=True
        ),
    ] = None
    template: Annotated[
        str | None, Parameter(name="--topic", help="Topic of each record, with its fields in braces: '/zeek/{_path}'.")
    ] = None
    speed: Annotated[
        float | None, Parameter(help="Keep the recorded pauses, divided by this factor; 1 is as recorded.")
    ] = None
    loop: Annotated[bool, Parameter(help="Repeat the file until --limit or Ctrl-C.")] = False

    def check(self, stream: StreamFlags) -> None:
        if self.ndjson is None:
            for flag, value in (("--topic", self.template), ("--speed", self.speed), ("--loop", self.loop or None)):
                if value is not None:
                    raise FlagError(f"{flag} belongs to --ndjson FILE; one topic for all: hub pub TOPIC")
            return
        if self.template is None:
            raise FlagError("--ndjson needs the topic of each record: --topic '/zeek/{_path}'")
        if self.speed is not None and stream.rate is not None:
            raise FlagError("--speed keeps the recorded pace and --rate a fixed one: give one of them")
        check_positive("--speed", self.speed, hint="1 is as recorded")
        if self.loop and self.ndjson == STDIN:
            raise FlagError("--loop needs a file that can be read again, not standard input")


class Feed:
    """Sends one run of messages, with `beside` as further arguments of `publish`."""

    def __init__(
        self, client: Client, replay: Replay, limit_messages: int | None = None, beside: dict[str, Any] | None = None
    ) -> None:
        self._publish_nowait: Callable[[str, Any], None] = partial(client.publish_nowait, **(beside or {}))
        self._publish: Callable[[str, Any], Awaitable[None]] = partial(client.publish, **(beside or {}))
        self._replay = replay
        self._limit_messages = limit_messages
        self._now = asyncio.get_running_loop().time
        self._schedule = Schedule(self._now()) if replay.pace is not None else None
        self._started_s = self._now()
        self.sent_messages = 0
        self.source: Input | None = None

    def _passed(self) -> tuple[float, float]:
        passed_s = self._now() - self._started_s
        return passed_s, self.sent_messages / passed_s if passed_s > 0 else 0.0

    def progress(self) -> Progress:
        text = f"{counted(self.sent_messages, 'message')}  {self._passed()[1]:,.0f}/s"
        return Progress(text) if self.source is None else Progress(text, self.source.read_bytes, self.source.size_bytes)

    def summary(self) -> str:
        (passed_s, rate_per_s), replay = self._passed(), self._replay
        sent = counted(self.sent_messages, "message")
        text = f"published {sent} in {passed_s:.2f} s, {rate_per_s:,.0f} messages/s"
        if replay.bad_lines:
            text += f"; {counted(replay.bad_lines, 'bad line')} passed over, the first: {replay.first_bad}"
        return text

    async def send(self, path: str, *, again: bool = False) -> None:
        """Publish a file or `STDIN`, to its end or to the limit; `again`: from the start again, until the limit."""
        while True:
            before = self.sent_messages
            with Input(path) as self.source:
                self._replay.begin(self.source.name)
                async for lines in self.source.lines():
                    await self._send_lines(lines)
                    if self.sent_messages == self._limit_messages:
                        return
                    await asyncio.sleep(0)
            if not again:
                return
            if self.sent_messages == before:
                raise InputError(f"{path}: holds nothing to send, going on would never end")

    async def _send_lines(self, lines: Sequence[bytes]) -> None:
        """Publish the messages of some lines, each when it is due, up to the limit."""
        schedule, publish_nowait = self._schedule, self._publish_nowait
        for topic, value, pause_s in self._replay.messages(lines):
            if schedule is not None:
                wait_s = schedule.wait_s(pause_s, self._now())
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
            try:
                publish_nowait(topic, value)
            except BusyError:
                await self._publish(topic, value)
            except (InvalidTopicError, InvalidValueError) as error:
                self._replay.reject(str(error))
                continue
            except RejectedError as error:
                if error.code != CloseCode.TOO_BIG:  # not this message, but the hub has refused us
                    raise
                self._replay.reject(error.text)
                continue
            self.sent_messages += 1
            if self.sent_messages == self._limit_messages:
                return


EXIT_REFUSED = 1

_BARRIER = "$hub/nothing"
"""A prefix that no topic has. Subscribing and back are two round trips: the hub has read all messages by then."""

_BARRIER_S = 10.0


async def pub(  # noqa: PLR0913 -- one flag each
    topic: Annotated[str | None, Parameter(help="Topic of the message.")] = None,
    value: Annotated[
        str | None,
        Parameter(
            help="JSON if valid, else text; without it, or with -, each line of standard input is a message.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    text: Annotated[bool, Parameter(help="VALUE or each line is text, even if it is valid JSON.")] = False,
    json: Annotated[bool, Parameter(help="VALUE or each line must be JSON; anything else is an error.")] = False,
    file: Annotated[str | None, Parameter(help="Publish the contents of this file, as bytes.")] = None,
    zeek_event: Annotated[
        str | None,
        Parameter(help="Publish a Zeek event of this name; VALUE is a JSON array of its arguments, see docs/zeek.md."),
    ] = None,
    label: Annotated[
        tuple[str, ...], Parameter(help="A label of the messages; repeatable. See docs/names-and-labels.md.")
    ] = (),
    to: Annotated[str, Parameter(help="Deliver only to the owner of this name.")] = "",
    stream: StreamFlags | None = None,
    recording: RecordingFlags | None = None,
) -> int:
    """Publish one message, lines from standard input, or the records of a file.

    Exit code 1 if something could not be published, or was rejected by the hub.
    """
    if json and text:
        raise FlagError("--json and --text exclude each other")
    stream, recording = stream or StreamFlags(), recording or RecordingFlags()
    recording.check(stream)
    beside: dict[str, Any] = {"labels": label, "to": to} if label or to else {}
    pace: Pace | None = None if stream.rate is None else 1 / stream.rate
    path = recording.ndjson
    if path is not None:
        if topic is not None or text or file is not None:
            raise FlagError("with --ndjson the messages come from its file: omit TOPIC, VALUE, --text and --file")
        pace = pace if recording.speed is None else Recorded(recording.speed)
        replay = Replay(decode_record, template(recording.template or ""), pace, skip_bad=stream.skip_bad)
        return await _run(hub, lambda client: _send(client, replay, stream, path, beside, again=recording.loop))
    if topic is None:
        raise FlagError("TOPIC is missing: hub pub TOPIC VALUE, or hub pub --ndjson FILE --topic TEMPLATE")
    topic = check_topic(topic)
    if zeek_event is not None:
        if text or file is not None or stream != StreamFlags():
            raise FlagError("--zeek-event takes TOPIC and VALUE only")
        from peers.cli.zeek_values import event_of  # noqa: PLC0415 -- 20 ms that others need not wait

        event = event_of(zeek_event, value)
        return await _run(hub, lambda client: client.publish(topic, event, **beside))
    if file is None and value in {None, STDIN}:
        decode = decode_text if text else decode_json if json else decode_value
        replay = Replay(decode, lambda _: topic, pace, skip_bad=stream.skip_bad)
        return await _run(hub, lambda client: _send(client, replay, stream, STDIN, beside))
    if stream != StreamFlags():
        raise FlagError("--rate, --limit and --skip-bad are for lines and records, not for a single value")
    single = _value(value, file, as_text=text, as_json=json)
    return await _run(hub, lambda client: client.publish(topic, single, **beside))


def _value(value: str | None, file: str | None, *, as_text: bool, as_json: bool) -> Any:
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
            text = f"hub pub: VALUE is published as text, because it is not valid JSON: {flaw}"
            print(escaped(text), file=sys.stderr)
        return decode_value(given)
    except UnreadableError as error:
        raise FlagError(f"VALUE is {error}; --file publishes bytes") from error


async def _run(hub: HubFlags, publish: Callable[[Client], Coroutine[Any, Any, None]]) -> int:
    """Connect, publish, and wait until the hub has read everything; return the exit code."""
    notices = Notices("pub")
    async with notices.connected(hub) as client:
        await publish(client)
        await client.drain()
        try:
            # Until the hub has read the messages, and has sent its rejections.
            async with asyncio.timeout(_BARRIER_S):
                with suppress(RejectedError):
                    barrier = client.subscribe(_BARRIER)
                    await barrier.open()
                    await barrier.close()
        except TimeoutError:
            notices.say(f"the hub has not confirmed within {_BARRIER_S:g} s that it has read everything")
        statistics = client.statistics()
    lost = statistics.rejected_messages + statistics.unsent_messages
    if lost:
        notices.say(f"the hub refused {counted(lost, 'message')}: {notices.rejection}")
    return EXIT_REFUSED if lost else 0


async def _send(  # noqa: PLR0913 -- of the command's flags
    client: Client, replay: Replay, stream: StreamFlags, path: str, beside: dict[str, Any], *, again: bool = False
) -> None:
    feed = Feed(client, replay, stream.limit, beside)
    try:
        async with shown_progress(feed.progress):
            await feed.send(path, again=again)
            await client.drain()
    except BaseException:
        if feed.sent_messages:
            print(feed.summary(), flush=True)
        raise
    print(feed.summary(), flush=True)
