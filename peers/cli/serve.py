"""`hub serve`: answer requests with a command, or with what was asked, until Ctrl-C or SIGTERM.

```
REQUEST ─▶ sh -c CMD: standard input is the value as JSON, $HUB_TOPIC its topic ─▶ standard output is the reply
                      exit code other than 0: the last line of standard error is the reason of a failure
```

What was asked never becomes part of the command line. Owner: one process; at most `--concurrency` commands run at once,
further requests wait (and what the hub lets be pending bounds these).
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
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
"""Default of how many commands run at once: starting one takes milliseconds of a core."""

Answer = Callable[[ServiceRequest], Any]


class CommandError(HubError):
    """The command has failed; the text is what whoever asked is told."""


def serve(
    *prefixes: Annotated[str, Parameter(help="Requests to topics that start with one of these are answered.")],
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    exec: Annotated[  # noqa: A002 -- the flag's name
        str | None,
        Parameter(help="Shell command run for each request: value on its standard input, reply on its output."),
    ] = None,
    echo: Annotated[bool, Parameter(help="Answer each request with its own value.", negative=())] = False,
    concurrency: Annotated[int, Parameter(help="Most commands that run at once.")] = _CONCURRENCY,
    limit: Annotated[int | None, Parameter(help="Stop after so many requests.")] = None,
) -> int:
    """Answer requests, until Ctrl-C, SIGTERM or --limit.

    Several that serve the same prefix share the load.
    """
    if not prefixes:
        raise FlagError("PREFIX is missing: hub serve PREFIX --exec CMD, or hub serve PREFIX --echo")
    if any(prefix.startswith(RESERVED) for prefix in prefixes):
        raise FlagError(f"{RESERVED} is the hub's own: it answers requests under it by itself")
    if echo is (exec is not None):
        raise FlagError("give one of --exec CMD and --echo")
    check_count("--limit", limit)
    check_count("--concurrency", concurrency)
    answer: Answer = _echo if exec is None else lambda request: _run(exec, request)
    return asyncio.run(_serve(prefixes, answer, hub, concurrency, limit))


async def _serve(prefixes: tuple[str, ...], answer: Answer, hub: HubFlags, concurrency: int, limit: int | None) -> int:
    notices = Notices("serve")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    taken = 0

    def answered(request: ServiceRequest) -> Any | Awaitable[Any]:
        nonlocal taken
        taken += 1
        if limit is not None and taken >= limit:
            stop.set()
        return answer(request)

    async with connect(hub.url, **notices.options(hub)) as client:
        service = client.serve(prefixes, answered, concurrency=concurrency)
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


def _echo(request: ServiceRequest) -> Any:
    """Answer a request with its own value."""
    return request.value


async def _run(command: str, request: ServiceRequest) -> Any:
    line = (await run_command(command, request.topic, request.value)).removesuffix(b"\n")
    return decode_value(line) if line else None


async def run_command(command: str, topic: str, value: Any) -> bytes:
    """Run a shell command for a value, and return what it writes.

    Raises:
        CommandError: The command has failed, or the value cannot be given to it.
    """
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
