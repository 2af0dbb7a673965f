"""`hub store import`: put the entries that the lines of a file hold, as `hub store export` writes them.

```
lines ─▶ entries ─ some at once ─▶ puts, a frame for many ─▶ store
```

Owner: one command. Bounds: `_AT_ONCE` puts are on their way. What stood before a line that cannot be read was put.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Annotated

from cyclopts import Parameter

from peers.cli.lines import Input
from peers.cli.notices import Notices
from peers.cli.replay import UnreadableError
from peers.cli.store.entry import Given, left_s, now, read_line
from peers.cli.store.opening import opened_store
from peers.cli.texts import counted
from peers.cli.url import HubFlags
from peers.client import Store

__all__ = ["import_"]

_AT_ONCE = 2_000


def import_(
    name: Annotated[str, Parameter(help="What the store is called.")],
    path: Annotated[str, Parameter(help="A file, plain or gzip; - for standard input.", allow_leading_hyphen=True)],
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
) -> None:
    """Put the entries that JSON lines hold: {"key": ..., "value": ...}, with "expires" if they do.

    Entries whose time is over are passed over. What else the store has stays.
    """
    asyncio.run(_import(name, path, hub))


async def _import(name: str, path: str, hub: HubFlags) -> None:
    notices = Notices("store import")
    numbers = count(1)
    put = over = 0
    with Input(path) as lines:
        async with opened_store(name, hub, notices) as store:
            try:
                async for some in lines.lines():
                    for first in range(0, len(some), _AT_ONCE):
                        entries = [
                            _entry(lines.name, number, line)
                            for line, number in zip(some[first : first + _AT_ONCE], numbers, strict=False)
                            if line.strip()
                        ]
                        put_now = await _put(store, entries)
                        put += put_now
                        over += len(entries) - put_now
            finally:
                more = f"; the time of {counted(over, 'other')} was over" if over else ""
                print(f"{put:,} put into {name}{more}")


def _entry(source: str, number: int, line: bytes) -> Given:
    try:
        return read_line(line)
    except UnreadableError as error:
        raise UnreadableError(f"{source}: line {number}: {error}") from error


async def _put(store: Store, entries: list[Given]) -> int:
    """Put entries, but those whose time is over; return how many."""
    time = now()
    alive = [(entry, left) for entry in entries if (left := left_s(entry.expires, time)) is None or left > 0]
    await asyncio.gather(*(store.put(entry.key, entry.value, expires_s=left) for entry, left in alive))
    return len(alive)
