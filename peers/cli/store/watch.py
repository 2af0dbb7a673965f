"""`hub store watch`: what is in a store, and then each change, until Ctrl-C.

```
StoreWatch ─ batch ─▶ pretty or JSON lines ─▶ Output (a thread) ─▶ standard output
```

Owner: one command. Not here: how nothing is missed (`peers.client.stores.copying`).
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from peers.cli.display import Stop
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.ranges import check_count, check_positive
from peers.cli.store.entry import shown
from peers.cli.store.opening import opened_store
from peers.cli.texts import counted, escaped_lines, json_text
from peers.cli.url import HubFlags
from peers.client import StoreChange, StoreWatch

__all__ = ["watch"]


def watch(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="What the store is called.")],
    prefix: Annotated[str, Parameter(help="Only keys that are text and begin like that.")] = "",
    /,
    *,
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    format: Annotated[  # noqa: A002 -- the flag's name
        Literal["pretty", "json"], Parameter(help="pretty: for people; json: an object a line.")
    ] = "pretty",
    limit: Annotated[
        int | None, Parameter(help="Stop after so many changes, what is there at first among them.")
    ] = None,
    timeout: Annotated[float | None, Parameter(help="Stop after so long without a change, seconds.")] = None,
) -> int:
    """Show the entries of a store, and then each change, without a gap.

    Exit code 2 if --timeout ends it before --limit is reached.
    """
    check_count("--limit", limit)
    check_positive("--timeout", timeout, "seconds")
    return asyncio.run(_watch(name, prefix, hub, Stop(limit, timeout), as_json=format == "json"))


async def _watch(name: str, prefix: str, hub: HubFlags, stop: Stop, *, as_json: bool) -> int:
    notices = Notices("store watch")
    async with opened_store(name, hub, notices, reconnect=True) as store:
        try:
            async with store.watch(prefix) as changes:
                return await _write(changes, stop, notices, as_json=as_json)
        finally:
            notices.finish()


async def _write(changes: StoreWatch, stop: Stop, notices: Notices, *, as_json: bool) -> int:
    task = asyncio.current_task()
    output = Output(sys.stdout.fileno(), task.cancel if task is not None else None)
    written = formless = 0
    try:
        while stop.limit_messages is None or written < stop.limit_messages:
            try:
                async with asyncio.timeout(stop.timeout_s):
                    batch = await changes.batch()
            except TimeoutError:
                break
            if not batch:
                break
            if stop.limit_messages is not None:
                batch = batch[: stop.limit_messages - written]
            lines = [_object(change) if as_json else _line(change) for change in batch]
            formless += sum(line is None for line in lines)
            text = b"".join(line + b"\n" for line in lines if line is not None)
            await output.write(escaped_lines(text) if sys.stdout.isatty() else text)
            written += len(batch)
        await output.flush()
    except asyncio.CancelledError:
        output.check()  # it may be the output that has cancelled us: then its error says why
        raise
    finally:
        if formless:
            notices.say(f"{counted(formless, 'change')} not shown: no JSON form")
    return stop.exit_code(written)


def _object(change: StoreChange) -> bytes | None:
    return json_text(change._asdict() | {"kind": change.kind.value})


def _line(change: StoreChange) -> bytes:
    """Write a change as its number, what has become of the entry, the key, and the value if there is one."""
    kind = "present" if change.present else change.kind.value
    key = "" if change.kind.value == "clear" else f" {shown(change.key)}"
    value = f" {shown(change.value)}" if change.kind.value == "put" else ""
    return f"{change.version} {kind:7}{key}{value}".encode()
