"""`LastFirst`: a stream that begins with the last message of each topic, from stores that are fed with them.

```
$hub/stores ─▶ which store is fed by each prefix
stream, open ─ what has come meanwhile ─┐
store ─ entries, the oldest first ──────┴─▶ batches: entries of topics of which nothing came live, then the stream
```

The stream is open before the entries are read, so nothing falls in between. A message that is on its way at that moment
may be both, the last of its topic and live: then it is shown twice, never not at all.

Owner: one `hub sub`. Bounds: all entries under the prefixes are held until they are shown. Not here: what feeds a store
(`peers.stores.feeding`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hub.batch import Message
from hub.errors import NotAllowedError, UsageError
from hub.topics import RESERVED
from peers.client import Client, MessageStream

if TYPE_CHECKING:  # stores are opened where `--last` asks for them
    from peers.client.stores.values import StoreEntry

__all__ = ["LastFirst", "Source", "last_first", "sources_of"]

_STORES = RESERVED + "stores"

_SHOWN_AT_ONCE = 1_000


class Source(NamedTuple):
    """Where the last messages under a prefix are."""

    store: str
    prefix: str


async def sources_of(client: Client, prefixes: Sequence[str]) -> list[Source]:
    """Return the stores that are fed by prefixes.

    Raises:
        UsageError: By one of them none is, or the hub does not tell; the text says how it will.
    """
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
    """Return a stream with the last messages before it, the oldest first.

    Args:
        client: Of the stream.
        sources: Where the last messages are.
        stream: Open.

    Raises:
        RequestError: A store cannot be read.
    """
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
