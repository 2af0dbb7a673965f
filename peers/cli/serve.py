"""`hub serve`: answer requests with a shell command, until Ctrl-C or SIGTERM.

```
REQUEST ─▶ sh -c CMD: standard input is the value as JSON, $HUB_TOPIC its topic ─▶ standard output is the reply
                      exit code other than 0: the last line of standard error is the reason of a failure
```

A request never becomes part of the command line.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from typing import Annotated, Any

from cyclopts import Parameter

from hub.errors import HubError
from hub.topics import RESERVED
from peers.cli.flag_values import FlagError, check_count
from peers.cli.notices import Notices
from peers.cli.replay import decode_value
from peers.cli.texts import counted, escaped, json_text
from peers.cli.url import HubFlags
from peers.client import ServiceRequest, connect

_CONCURRENCY = 8
"""Starting a command takes milliseconds of a core."""


class CommandError(HubError):
    """The command has failed; the text is the reason for the requester."""


def serve(
    *prefixes: Annotated[str, Parameter(help="Prefixes of topics whose requests are answered.")],
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    exec: Annotated[  # noqa: A002 -- the flag's name
        str, Parameter(help="Shell command run for each request: value on its standard input, reply on its output.")
    ],
    concurrency: Annotated[int, Parameter(help="Limit of commands that run at once.")] = _CONCURRENCY,
    limit: Annotated[int | None, Parameter(help="Stop after this number of requests.")] = None,
) -> int:
    """Answer requests, until Ctrl-C, SIGTERM or --limit.

    Services of the same prefix share the requests.
    """
    if not prefixes:
        raise FlagError("PREFIX is missing: hub serve PREFIX --exec CMD")
    if any(prefix.startswith(RESERVED) for prefix in prefixes):
        raise FlagError(f"{RESERVED} is the hub's own: it answers requests under it by itself")
    check_count("--limit", limit)
    check_count("--concurrency", concurrency)
    return asyncio.run(_serve(prefixes, exec, hub, concurrency, limit))


async def _serve(prefixes: tuple[str, ...], command: str, hub: HubFlags, concurrency: int, limit: int | None) -> int:
    notices = Notices("serve")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    taken = 0

    async def answer(request: ServiceRequest) -> Any:
        nonlocal taken
        taken += 1
        if limit is not None and taken >= limit:
            stop.set()
        line = (await run_command(command, request.topic, request.value)).removesuffix(b"\n")
        return decode_value(line) if line else None

    async with connect(hub.url, **notices.options(hub)) as client:
        service = client.serve(prefixes, answer, concurrency=concurrency)
        async with service:
            print(escaped(f"serving {', '.join(prefix or 'everything' for prefix in prefixes)}"), flush=True)
            ended = asyncio.ensure_future(client.wait_closed())
            stopped = asyncio.ensure_future(stop.wait())
            try:
                await asyncio.wait([ended, stopped], return_when=asyncio.FIRST_COMPLETED)
                if ended.done():
                    ended.result()
            finally:
                for waiting in (ended, stopped):
                    waiting.cancel()
        notices.say(f"{counted(service.requests, 'request')}, {service.failures:,} of them failed")
    return 0


async def run_command(command: str, topic: str, value: Any) -> bytes:
    """Run a shell command with a value as its input; return its output, or raise `CommandError`."""
    text = json_text(value)
    if text is None:
        raise CommandError("the value has no JSON form")
    variables = os.environ | {"HUB_TOPIC": topic}
    process = await asyncio.create_subprocess_shell(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=variables)
    try:
        said, complaint = await process.communicate(text + b"\n")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise CommandError(last or f"the command ended with exit code {process.returncode}")
    return said
