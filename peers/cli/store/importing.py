"""`hub store import`: put the entries that the lines of a file hold, as `hub store export` writes them.

```
lines ─▶ entries ─ some at once ─▶ puts, a frame for many ─▶ store
```

Owner: one command. Bounds: `_AT_ONCE` puts are on their way. It ends at the first line that cannot be read or put, and
names it: what stood before was put, and so may be what stands behind it in the same frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from hub.errors import RequestFailedError, RequestTooBigError
from peers.cli.lines import Input
from peers.cli.notices import Notices
from peers.cli.progress import Progress, shown_progress
from peers.cli.replay import UnreadableError
from peers.cli.store.entry import Given, left_s, now, read_line
from peers.cli.store.opening import opened_store
from peers.cli.texts import counted
from peers.cli.url import HubFlags
from peers.client import InvalidValueError, Store

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

    Entries whose time is over are passed over. What else the store has stays. Shows how far it is, on a terminal.
    """
    asyncio.run(_import(name, path, hub))


async def _import(name: str, path: str, hub: HubFlags) -> None:
    notices = Notices("store import")
    with Input(path) as source:
        async with opened_store(name, hub, notices) as store:
            importing = _Importing(store, source)
            try:
                async with shown_progress(importing.progress):
                    await importing.run()
            finally:
                more = f"; the time of {counted(importing.over, 'other')} was over" if importing.over else ""
                print(f"{importing.put:,} put into {name}{more}")


class _Importing:
    """One run, and its account."""

    def __init__(self, store: Store, source: Input) -> None:
        self._store = store
        self._source = source
        self._lines = 0
        self.put = 0
        self.over = 0
        """Entries whose time was over."""

    def progress(self) -> Progress:
        """Return how far it has come."""
        return Progress(f"{self.put:,} put", self._source.read_bytes, self._source.size_bytes)

    async def run(self) -> None:
        """Put everything.

        Raises:
            UnreadableError: A line holds no entry.
            RequestError: One was not put.
        """
        async for lines in self._source.lines():
            for first in range(0, len(lines), _AT_ONCE):
                await self._take(lines[first : first + _AT_ONCE])

    async def _take(self, lines: Sequence[bytes]) -> None:
        entries: list[tuple[int, Given]] = []
        unreadable = None
        for number, line in enumerate(lines, self._lines + 1):
            if not line.strip():
                continue
            try:
                entries.append((number, read_line(line)))
            except UnreadableError as error:
                unreadable = UnreadableError(self._at(number, error))
                break
        self._lines += len(lines)
        await self._put(entries)
        if unreadable is not None:
            raise unreadable

    async def _put(self, entries: list[tuple[int, Given]]) -> None:
        time = now()
        alive = [
            (number, entry, left)
            for number, entry in entries
            if (left := left_s(entry.expires, time)) is None or left > 0
        ]
        self.over += len(entries) - len(alive)
        outcomes = await asyncio.gather(
            *(self._store.put(entry.key, entry.value, expires_s=left) for _, entry, left in alive),
            return_exceptions=True,
        )
        self.put += sum(not isinstance(outcome, BaseException) for outcome in outcomes)
        for (number, _, _), outcome in zip(alive, outcomes, strict=True):
            if isinstance(outcome, RequestFailedError | RequestTooBigError):
                raise type(outcome)(outcome.status, self._at(number, outcome)) from outcome
            if isinstance(outcome, InvalidValueError):
                raise UnreadableError(self._at(number, outcome)) from outcome
            if isinstance(outcome, BaseException):
                raise outcome

    def _at(self, number: int, error: Exception) -> str:
        return f"{self._source.name}: line {number}: {error}"
