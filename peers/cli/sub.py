"""`hub sub`: show messages under some prefixes, until Ctrl-C.

It asks for a queue as large as hubs usually grant, so that a burst is not lost while a terminal scrolls. Values become
JSON as on the hub's WebSocket; values without a JSON form are counted (`JsonFormat`) or shown as Python writes them
(`PrettyFormat`). Messages that are not visible (the hub's own) do not count.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from cyclopts import Parameter

from hub.errors import NotAllowedError, UsageError
from hub.journal.message import RecordedMessage
from hub.labels.envelope import TaggedMessage
from hub.limits import Overflow
from hub.messages.batch import Message
from hub.topics import RESERVED
from peers.cli.contexts import DEFAULT_HUB, HubFlags
from peers.cli.notices import Notices
from peers.cli.output import Output, stdout_written
from peers.cli.texts import (
    NO_FORM,
    FlagError,
    check_count,
    check_from,
    check_positive,
    counted,
    cut,
    encoder,
    escaped,
    escaped_lines,
    json_text,
    moment,
)
from peers.client import Client, MessageStream
from peers.wire.hello import QueueWish

if TYPE_CHECKING:
    from peers.client.store import StoreEntry

_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_TOPIC_COLOURS = tuple(f"\x1b[{number}m" for number in (36, 32, 33, 35, 34, 96, 92, 93, 95, 94))


class _Line(msgspec.Struct, omit_defaults=True):
    topic: str
    value: Any
    labels: tuple[str, ...] = ()
    sender: str = ""
    to: str = ""
    offset: int | None = None
    time: str = ""
    epoch: int = 0


def _line_of(message: Message, epoch: int) -> _Line:
    if isinstance(message, TaggedMessage):
        return _Line(message.topic, message.value, message.labels, message.sender, message.destination)
    if isinstance(message, RecordedMessage):
        return _Line(message.topic, message.value, offset=message.offset, time=moment(message.time_us), epoch=epoch)
    return _Line(*message)


class JsonFormat:
    """Writes each message as one JSON object a line, escaped if it is `safe` for a terminal."""

    __slots__ = ("_event_fields", "_safe", "formless_messages")

    def __init__(self, *, safe: bool = False, zeek: bool = False) -> None:
        self._safe = safe
        self._event_fields: Callable[[Any], dict[str, Any] | None] | None = None
        self.formless_messages = 0
        if zeek:
            from peers.cli.zeek_values import event_fields  # noqa: PLC0415 -- 20 ms that others need not wait

            self._event_fields = event_fields

    def render(self, messages: Sequence[Message], epoch: int = 0) -> bytes:
        """Return the lines of `messages`, with the journal's epoch of their offsets, 0 if not known."""
        try:
            lines = encoder.encode_lines([self._object(message, epoch) for message in messages])
        except NO_FORM:
            lines = b"".join([self._line(message, epoch) for message in messages])
        return escaped_lines(lines) if self._safe else lines

    def _object(self, message: Message, epoch: int) -> _Line | dict[str, Any]:
        line = _line_of(message, epoch)
        fields = None if self._event_fields is None else self._event_fields(message.value)
        if fields is None:
            return line
        line.value = None
        members: dict[str, Any] = msgspec.to_builtins(line)
        del members["topic"], members["value"]
        return {"topic": message.topic} | fields | members

    def _line(self, message: Message, epoch: int) -> bytes:
        text = json_text(message.value)
        if text is None:
            self.formless_messages += 1
            return b""
        line = _line_of(message, epoch)
        line.value = msgspec.Raw(text)
        return encoder.encode(line) + b"\n"


class PrettyFormat:
    """Writes each message as one line for people; each topic always has the same colour."""

    __slots__ = ("_colour", "_shown_event")

    def __init__(self, *, colour: bool = False, zeek: bool = False) -> None:
        self._colour = colour
        self._shown_event: Callable[[Any], str | None] | None = None
        if zeek:
            from peers.cli.zeek_values import shown_event  # noqa: PLC0415 -- as above

            self._shown_event = shown_event

    def render(self, messages: Sequence[Message], at: datetime, width: int | None) -> bytes:
        """Return the lines of `messages`, cut to `width` columns. Records of a journal have their own time."""
        time = f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
        return "".join([self._line(time, message, width) for message in messages]).encode()

    def _line(self, time: str, message: Message, width: int | None) -> str:
        if isinstance(message, RecordedMessage):
            time = f"{message.offset} {moment(message.time_us)}"
        value, topic = escaped(self._value(message.value)), escaped(message.topic)
        if isinstance(message, TaggedMessage):
            parts = [f"[{', '.join(message.labels)}]"] if message.labels else []
            parts += [
                f"{word} {name}" for word, name in (("from", message.sender), ("to", message.destination)) if name
            ]
            value = f"{escaped(' '.join(parts))} {value}"
        line = f"{time} {topic} {value}"
        if width is not None:
            line = cut(line, width)
        if not self._colour:
            return line + "\n"
        topic_end = len(time) + 1 + len(topic)
        colour = _TOPIC_COLOURS[zlib.crc32(topic.encode()) % len(_TOPIC_COLOURS)]
        return f"{_DIM}{line[: len(time)]}{_RESET}{colour}{line[len(time) : topic_end]}{_RESET}{line[topic_end:]}\n"

    def _value(self, value: Any) -> str:
        shown = None if self._shown_event is None else self._shown_event(value)
        if shown is not None:
            return shown
        packed = json_text(value)
        return packed.decode() if packed is not None else repr(value)


EXIT_INCOMPLETE = 2
"""`--timeout` has ended the command before `--limit` was reached."""


class Stop(NamedTuple):
    """When the command ends by itself."""

    limit_messages: int | None
    timeout_s: float | None

    def exit_code(self, shown_messages: int) -> int:
        return EXIT_INCOMPLETE if self.limit_messages is not None and shown_messages < self.limit_messages else 0


async def _batches(
    ahead: Iterable[list[Message]], stream: MessageStream, stop: Stop, *, hides_hub: bool
) -> AsyncIterator[list[Message]]:
    """Yield the visible messages of each batch, those ahead of the stream first, until it is time to stop."""
    loop = asyncio.get_running_loop()
    waiting = deque(ahead)
    give_up_s = None if stop.timeout_s is None else loop.time() + stop.timeout_s
    left = stop.limit_messages
    while left is None or left > 0:
        try:
            async with asyncio.timeout_at(give_up_s):
                batch = waiting.popleft() if waiting else await stream.batch()
        except TimeoutError:
            return
        if not batch:
            return
        if hides_hub:
            batch = [message for message in batch if not message.topic.startswith(RESERVED)]
        if not batch:
            continue  # the hub's own messages alone: they do not put the end off
        if stop.timeout_s is not None:
            give_up_s = loop.time() + stop.timeout_s
        if left is not None:
            batch = batch[:left]
            left -= len(batch)
        yield batch


_STORES = RESERVED + "stores"

_SHOWN_AT_ONCE = 1_000


async def sources_of(client: Client, prefixes: Sequence[str]) -> list[tuple[str, str]]:
    """Return the store of the last messages for each prefix; raise `UsageError` if one of them is in none."""
    try:
        stores: list[dict[str, Any]] = await client.request(_STORES, None)
    except NotAllowedError as error:
        text = f"--last: this user may not list the stores of the hub: that needs `request` of {_STORES}"
        raise UsageError(text) from error
    fed = [(store["name"], prefix) for store in stores for prefix in store["fed_from"]]
    return [(_source(client, prefix, fed), prefix) for prefix in prefixes]


def _source(client: Client, prefix: str, fed: list[tuple[str, str]]) -> str:
    names = [name for name, beginning in fed if prefix.startswith(beginning)]
    if names:
        return names[0]
    has = ", ".join(f"{name} by {beginning}" for name, beginning in fed) or "none at all"
    hub = client.hub.name if client.hub else ""
    raise UsageError(
        f"--last: no store of hub {hub} is fed by all that begins with {prefix or 'anything'} (fed are: {has}); "
        f"`hub run --store last=:memory: --store-from last={prefix}` has one"
    )


async def last_messages(
    client: Client, sources: Sequence[tuple[str, str]], stream: MessageStream
) -> list[list[Message]]:
    """Return the last messages in stores, the oldest first, and the messages of an open stream until now."""
    entries: dict[str, StoreEntry] = {}
    for store, prefix in sources:
        async for entry in client.store(store).entries(prefix):
            if isinstance(entry.key, str):  # other keys do not come from topics
                entries[entry.key] = entry
    live: list[list[Message]] = []
    while batch := stream.batch_nowait():
        live.append(batch)
    newer = {message.topic for batch in live for message in batch}
    last = [
        Message(entry.key, entry.value)
        for entry in sorted(entries.values(), key=lambda entry: entry.version)
        if entry.key not in newer
    ]
    return [*(last[at : at + _SHOWN_AT_ONCE] for at in range(0, len(last), _SHOWN_AT_ONCE)), *live]


_QUEUE_MESSAGES = 1_000_000
_QUEUE_BYTES = 256 * 1024 * 1024
"""The most that a hub grants by default (`queue_max`): bursts of millions of small messages pass without loss."""

Format = Literal["pretty", "json"]


async def sub(  # noqa: PLR0913 -- one flag each
    *prefixes: Annotated[str, Parameter(help="Prefixes of topics. Default: all except the hub's own, $hub/.")],
    hub: HubFlags = DEFAULT_HUB,
    format: Annotated[  # noqa: A002 -- the flag's name
        Format | None, Parameter(help="pretty (default on a terminal) or json (default elsewhere).")
    ] = None,
    zeek: Annotated[bool, Parameter(help="Show Zeek events as Zeek writes them: name(arguments).")] = False,
    full: Annotated[bool, Parameter(help="Do not cut pretty lines to the terminal's width.")] = False,
    limit: Annotated[int | None, Parameter(help="Stop after this number of messages.")] = None,
    timeout: Annotated[float | None, Parameter(help="Stop after this time without a message, seconds.")] = None,
    queue_messages: Annotated[int, Parameter(help="Requested length of the send queue, messages.")] = _QUEUE_MESSAGES,
    overflow: Annotated[
        Overflow | None, Parameter(help="Overflow policy of a full queue. Default: that of the hub.")
    ] = None,
    from_offset: Annotated[
        int | None, Parameter(help="Read the journal from this offset on, and continue as it grows: each record once.")
    ] = None,
    epoch: Annotated[
        int | None,
        Parameter(help="Epoch of that offset: if records before it were lost, start at the first replaced one."),
    ] = None,
    from_time: Annotated[
        datetime | None,
        Parameter(help="The same by time: the first record that is not older. UTC unless a zone is given."),
    ] = None,
    of: Annotated[
        str, Parameter(help="With one of these: read the journal of this hub of the mesh, by its name or id.")
    ] = "",
    recorded: Annotated[
        bool, Parameter(help="Only recorded messages, each with its offset and time, once it is committed.")
    ] = False,
    rule: Annotated[
        str | None, Parameter(help="Messages with all these labels, as a,b; see docs/names-and-labels.md.")
    ] = None,
    sender: Annotated[str, Parameter(help="Messages whose sender has this name.")] = "",
    last: Annotated[
        bool, Parameter(help="The last message of each topic first, from a store that is fed with them (--store-from).")
    ] = False,
    narrow: Annotated[
        bool, Parameter(help="Subscribe to the permitted part of these topics, instead of being refused.")
    ] = False,
) -> int:
    """Subscribe and show messages, until Ctrl-C, --limit or --timeout.

    Messages lost because this command reads too slowly are reported on standard error.
    Exit code 2 if --timeout ends it before --limit is reached.
    """
    check_count("--limit", limit)
    check_positive("--timeout", timeout, "seconds")
    check_count("--queue-messages", queue_messages)
    since = check_from(from_offset, from_time)
    if epoch is not None and (from_offset is None or epoch < 0):
        raise FlagError("--epoch: give 0 or more, and --from-offset, to which it belongs")
    is_read = from_offset is not None or since is not None or recorded
    if of and not is_read:
        raise FlagError("--of: give --from-offset, --from-time or --recorded; live messages come from all hubs")
    labels = _labels(rule)
    is_rule = bool(labels or sender)
    if is_rule and (len(prefixes) > 1 or is_read):
        raise FlagError("--rule and --sender take one prefix at most, and live messages only: no journal keeps labels")
    if last and (is_rule or is_read):
        raise FlagError("--last: not with --rule, --sender or a place in the journal; a store keeps no labels")
    wildcards = [one for one in prefixes if "*" in one or one.endswith(("/#", "/+", ">")) or "/+/" in one]
    if wildcards:
        hint = escaped(f"{wildcards[0]}: prefixes have no wildcards, each character is literal")
        print(f"hub sub: {hint}", file=sys.stderr, flush=True)
    shown = prefixes or ("",)

    def subscribed(client: Client) -> MessageStream:
        if is_rule:
            return client.subscribe_rule(labels, prefix=shown[0], sender=sender)
        return client.subscribe(
            *shown, from_offset=from_offset, from_time=since, hub=of, recorded=recorded, epoch=epoch or 0
        )

    stop, wish = Stop(limit, timeout), QueueWish(queue_messages, _QUEUE_BYTES, overflow)

    notices = Notices("sub", reads_journal=is_read)
    # Without prefixes: everything that this user may see.
    narrows = narrow or not prefixes
    async with stdout_written() as output, notices.connected(hub, wish, narrow=narrows) as client:
        sources = await sources_of(client, shown) if last else []
        async with subscribed(client) as stream:
            ahead = await last_messages(client, sources, stream) if sources else []
            if sys.stderr.isatty():
                names = [prefix or "everything" for prefix in shown] + [f"label {label}" for label in labels]
                names += [f"sender {sender}"] * bool(sender)
                hub_name = client.hub.name if client.hub else ""
                notices.say(f"subscribed to {', '.join(names)} at hub {hub_name}")
            batches = _batches(ahead, stream, stop, hides_hub=not prefixes)
            return stop.exit_code(await _write(batches, stream, output, notices, format, zeek=zeek, full=full))


def _labels(rule: str | None) -> tuple[str, ...]:
    labels = tuple(label for label in (rule or "").split(",") if label)
    if rule is not None and not labels:
        raise FlagError(f"--rule {rule!r}: give one label or several, as a,b")
    return labels


async def _write(  # noqa: PLR0913 -- of the command's flags
    batches: AsyncIterator[list[Message]],
    stream: MessageStream,
    output: Output,
    notices: Notices,
    chosen: Format | None,
    *,
    zeek: bool,
    full: bool,
) -> int:
    on_terminal = sys.stdout.isatty()
    as_json = chosen == "json" if chosen is not None else not on_terminal
    json = JsonFormat(safe=on_terminal, zeek=zeek)
    pretty = PrettyFormat(colour=on_terminal and not os.environ.get("NO_COLOR"), zeek=zeek)
    shown = 0
    try:
        async for batch in batches:
            if as_json:
                lines = json.render(batch, stream.epoch)
            else:
                width = shutil.get_terminal_size().columns if on_terminal and not full else None
                lines = pretty.render(batch, datetime.now().astimezone(), width)
            await output.write(lines)
            shown += len(batch)
    finally:
        if json.formless_messages:
            notices.say(f"{counted(json.formless_messages, 'message')} not shown: no JSON form")
    return shown
