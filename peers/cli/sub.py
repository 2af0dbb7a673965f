"""`hub sub`: show messages under some prefixes, until Ctrl-C.

It asks for a queue as large as hubs usually grant, so that a burst is not lost while a terminal scrolls.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from hub.errors import NotAllowedError, UsageError
from hub.limits import Overflow
from hub.messages.batch import Message
from hub.topics import RESERVED
from peers.cli.display import Format, Look, Stop, show
from peers.cli.flag_values import FlagError, check_count, check_positive, with_zone
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.texts import escaped
from peers.cli.url import HubFlags
from peers.client import Client, MessageStream, connect
from peers.wire.hello import QueueWish

if TYPE_CHECKING:
    from peers.client.store import StoreEntry


_STORES = RESERVED + "stores"

_SHOWN_AT_ONCE = 1_000


class Source(NamedTuple):
    """The store of the last messages under a prefix."""

    store: str
    prefix: str


async def sources_of(client: Client, prefixes: Sequence[str]) -> list[Source]:
    """Return the stores that are fed by prefixes; raise `UsageError` if one of them is in none."""
    try:
        stores: list[dict[str, Any]] = await client.request(_STORES, None)
    except NotAllowedError as error:
        text = f"--last: this user may not ask which stores the hub has: that takes `request` of {_STORES}"
        raise UsageError(text) from error
    fed = [(store["name"], prefix) for store in stores for prefix in store["fed_from"]]
    return [_source(client, prefix, fed) for prefix in prefixes]


def _source(client: Client, prefix: str, fed: list[tuple[str, str]]) -> Source:
    names = [name for name, beginning in fed if prefix.startswith(beginning)]
    if names:
        return Source(names[0], prefix)
    has = ", ".join(f"{name} by {beginning}" for name, beginning in fed) or "none at all"
    hub = client.hub.name if client.hub else ""
    raise UsageError(
        f"--last: no store of hub {hub} is fed by all that begins with {prefix or 'anything'} (fed are: {has}); "
        f"`hub run --store last=:memory: --store-from last={prefix}` has one"
    )


class LastFirst:
    """A stream with batches before it."""

    epoch = 0

    def __init__(self, ahead: Iterable[list[Message]], stream: MessageStream) -> None:
        self._ahead = deque(ahead)
        self._stream = stream

    async def batch(self) -> list[Message]:
        """As `MessageStream.batch`."""
        return self._ahead.popleft() if self._ahead else await self._stream.batch()


async def last_first(client: Client, sources: Sequence[Source], stream: MessageStream) -> LastFirst:
    """Return an open stream with the last messages before it, the oldest first."""
    entries: dict[str, StoreEntry] = {}
    for store, prefix in sources:
        async for entry in client.store(store).entries(prefix):
            if isinstance(entry.key, str):  # others were put by somebody else
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
    return LastFirst([*(last[at : at + _SHOWN_AT_ONCE] for at in range(0, len(last), _SHOWN_AT_ONCE)), *live], stream)


_QUEUE_MESSAGES = 1_000_000
_QUEUE_BYTES = 256 * 1024 * 1024
"""The most that a hub grants by default (`queue_max`): bursts of millions of small messages pass without loss."""


def sub(  # noqa: PLR0913 -- one flag each
    *prefixes: Annotated[
        str,
        Parameter(help="Prefixes of topics. Default: all except the hub's own, $hub/."),
    ],
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    format: Annotated[  # noqa: A002 -- the flag's name
        Format | None, Parameter(help="pretty (default on a terminal) or json (default elsewhere).")
    ] = None,
    zeek: Annotated[
        bool, Parameter(help="Show Zeek events as Zeek writes them: name(arguments).", negative=())
    ] = False,
    full: Annotated[bool, Parameter(help="Do not cut pretty lines to the terminal's width.", negative=())] = False,
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
        bool,
        Parameter(help="Only recorded messages, each with its offset and time, once it is committed.", negative=()),
    ] = False,
    rule: Annotated[
        str | None, Parameter(help="Messages with all these labels, as a,b; see docs/names-and-labels.md.")
    ] = None,
    sender: Annotated[str, Parameter(help="Messages whose sender has this name.")] = "",
    last: Annotated[
        bool,
        Parameter(
            help="The last message of each topic first, from a store that is fed with them (--store-from).", negative=()
        ),
    ] = False,
    narrow: Annotated[
        bool,
        Parameter(help="Subscribe to the permitted part of these topics, instead of being refused.", negative=()),
    ] = False,
) -> int:
    """Subscribe and show messages, until Ctrl-C, --limit or --timeout.

    Messages lost because this command reads too slowly are reported on standard error.
    Exit code 2 if --timeout ends it before --limit is reached.
    """
    check_count("--limit", limit)
    check_positive("--timeout", timeout, "seconds")
    check_count("--queue-messages", queue_messages)
    wish = QueueWish(queue_messages, _QUEUE_BYTES, overflow)
    if from_offset is not None and (from_offset < 0 or from_time is not None):
        raise FlagError("--from-offset: give 0 or more, and not --from-time as well")
    if epoch is not None and (from_offset is None or epoch < 0):
        raise FlagError("--epoch: give 0 or more, and --from-offset, to which it belongs")
    since = None if from_time is None else with_zone(from_time)
    if since is not None and since.timestamp() < 0:
        raise FlagError(f"--from-time {from_time}: give a time of 1970 or later")
    if of and from_offset is None and since is None and not recorded:
        raise FlagError("--of: give --from-offset, --from-time or --recorded; what is live comes from all hubs")
    names_all = not prefixes  # everything, whatever that is for this user
    wanted = _Wanted(
        prefixes or ("",),
        from_offset,
        since,
        of,
        _labels(rule),
        sender,
        hides_hub=names_all,
        narrows=narrow or names_all,
        recorded=recorded,
        last=last,
        epoch=epoch or 0,
    )
    wanted.check()
    if wildcard := _wildcard(prefixes):
        print(f"hub sub: {wildcard}", file=sys.stderr, flush=True)
    chosen: Format = format or ("pretty" if sys.stdout.isatty() else "json")
    return asyncio.run(_subscribe(wanted, hub, wish, Stop(limit, timeout), Look(chosen, full, zeek)))


class _Wanted(NamedTuple):
    """The subscription."""

    prefixes: tuple[str, ...]
    from_offset: int | None
    from_time: datetime | None
    of: str
    """The hub whose journal is read; empty for the one that is connected."""
    labels: tuple[str, ...]
    sender: str
    hides_hub: bool
    """Whether the hub's own messages are left out."""
    narrows: bool
    """Whether messages that this user may not see are left out."""
    recorded: bool = False
    last: bool = False
    epoch: int = 0
    """Of `from_offset`, or 0."""

    @property
    def is_rule(self) -> bool:
        """Whether it is a rule, not prefixes alone."""
        return bool(self.labels or self.sender)

    @property
    def is_read(self) -> bool:
        """Whether it is read from a journal."""
        return self.from_offset is not None or self.from_time is not None or self.recorded

    def check(self) -> None:
        """Raise `FlagError` where its parts do not go together."""
        is_read = self.is_read
        if self.is_rule and (len(self.prefixes) > 1 or is_read):
            raise FlagError("--rule and --sender take one prefix at most, and go on live only: no journal keeps labels")
        if self.last and (self.is_rule or is_read):
            raise FlagError("--last: not with --rule, --sender, or what begins in the journal; a store keeps no labels")

    def open(self, client: Client) -> MessageStream:
        """Return the subscription."""
        if self.is_rule:
            return client.subscribe_rule(self.labels, prefix=self.prefixes[0], sender=self.sender)
        return client.subscribe(
            *self.prefixes,
            from_offset=self.from_offset,
            from_time=self.from_time,
            hub=self.of,
            recorded=self.recorded,
            epoch=self.epoch,
        )

    def visible(self, batch: list[Message]) -> list[Message]:
        """Return the messages of a batch to show."""
        return [message for message in batch if not message.topic.startswith(RESERVED)] if self.hides_hub else batch

    def __str__(self) -> str:
        parts = [prefix or "everything" for prefix in self.prefixes]
        parts += [f"label {label}" for label in self.labels]
        return ", ".join(parts + [f"sender {self.sender}"] * bool(self.sender))


def _labels(rule: str | None) -> tuple[str, ...]:
    """Return the labels of `--rule`."""
    labels = tuple(label for label in (rule or "").split(",") if label)
    if rule is not None and not labels:
        raise FlagError(f"--rule {rule!r}: give one label or several, as a,b")
    return labels


def _wildcard(prefixes: tuple[str, ...]) -> str:
    """Return a hint for prefixes that look like wildcards of other brokers."""
    for prefix in prefixes:
        if "*" in prefix or prefix.endswith(("/#", "/+", ">")) or "/+/" in prefix:
            return escaped(f"{prefix}: prefixes have no wildcards, each character stands for itself")
    return ""


async def _subscribe(wanted: _Wanted, hub: HubFlags, wish: QueueWish, stop: Stop, look: Look) -> int:
    notices = Notices("sub")
    notices.reads_journal = wanted.is_read
    task = asyncio.current_task()
    output = Output(sys.stdout.fileno(), task.cancel if task is not None else None)
    try:
        async with connect(hub.url, **notices.options(hub, wish, narrow=wanted.narrows)) as client:
            try:
                sources = await sources_of(client, wanted.prefixes) if wanted.last else []
                async with wanted.open(client) as stream:
                    messages = await last_first(client, sources, stream) if sources else stream
                    if sys.stderr.isatty():
                        notices.say(f"subscribed to {wanted} at hub {client.hub.name if client.hub else ''}")
                    return await show(messages, wanted.visible, stop, look, output, notices)
            finally:
                notices.finish()
    except asyncio.CancelledError:
        output.check()  # it may be the output that has cancelled us: then its error says why
        raise
