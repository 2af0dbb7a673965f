"""`hub request`: send requests, show the replies as JSON. `hub serve`: answer requests with a shell command.

The command gets the value as JSON on its standard input, and `$HUB_TOPIC`; its output is the reply, or, with another
exit code than 0, the last line of its standard error the reason of a failure. A request never becomes part of a
command line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Annotated, Any

from cyclopts import Parameter

from hub.errors import HubError, RequestError
from hub.topics import RESERVED
from peers.cli.contexts import DEFAULT_HUB, HubFlags
from peers.cli.lines import STDIN, Input
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.replay import UnreadableError, decode_json, decode_text, decode_value, flaw_of_json
from peers.cli.texts import FlagError, check_count, counted, escaped, escaped_lines, json_text
from peers.client import ServiceRequest
from peers.client.requests import TIMEOUT_LIMIT_S

EXIT_UNANSWERED = 1

_OUTSTANDING = 256


async def request(  # noqa: PLR0913 -- one flag each
    topic: Annotated[str, Parameter(help="Topic; the service with the longest matching prefix answers.")],
    value: Annotated[
        str | None,
        Parameter(
            help="JSON if valid, else text; null without it; -: one request for each line of standard input.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    /,
    *,
    hub: HubFlags = DEFAULT_HUB,
    timeout: Annotated[float, Parameter(help="Time limit of a reply, seconds.")] = 30.0,
    text: Annotated[bool, Parameter(help="VALUE or each line is text, even if it is valid JSON.")] = False,
    json: Annotated[bool, Parameter(help="VALUE or each line must be JSON; anything else is an error.")] = False,
    service: Annotated[bool, Parameter(help="TOPIC is the name of a service, not a topic.")] = False,
) -> int:
    """Send a request to a service, and show its reply as JSON.

    Exit code 1 if a request was not answered with a value; standard error says why.
    """
    if not 0 < timeout <= TIMEOUT_LIMIT_S:
        raise FlagError(f"--timeout {timeout:g}: give more than 0 and at most {TIMEOUT_LIMIT_S:g} seconds")
    if json and text:
        raise FlagError("--json and --text exclude each other")
    decode = decode_text if text else decode_json if json else decode_value
    packed = None if value in {None, STDIN} else _decoded(value or "", decode)

    notices = Notices("request")

    def shown(reply: Any) -> bytes:
        line = json_text(reply)
        if line is None:
            notices.say("a reply has no JSON form, and is not shown")
            return b""
        return (escaped_lines(line) if sys.stdout.isatty() else line) + b"\n"

    async with notices.connected(hub) as client:

        async def ask(value: Any) -> bytes:
            try:
                return shown(await client.request(topic, value, timeout_s=timeout, name=service))
            except RequestError as error:
                raise type(error)(error.status, f"{topic}: {error.text}") from error

        if value == STDIN:
            return await _ask_lines(ask, decode, notices)
        line = await ask(packed)
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
    return 0 if line else EXIT_UNANSWERED


def _decoded(value: str, decode: Callable[[bytes], Any]) -> Any:
    given = os.fsencode(value)
    if decode is decode_value and (flaw := flaw_of_json(given)):
        print(escaped(f"hub request: VALUE is sent as text, because it is not valid JSON: {flaw}"), file=sys.stderr)
    try:
        return decode(given)
    except UnreadableError as error:
        raise FlagError(f"VALUE is {error}") from error


async def _ask_lines(ask: Callable[[Any], Awaitable[bytes]], decode: Callable[[bytes], Any], notices: Notices) -> int:
    output = Output(sys.stdout.fileno())
    asked: deque[tuple[int, asyncio.Future[bytes]]] = deque()
    numbers = count(1)
    unanswered = 0

    async def show_first() -> None:
        nonlocal unanswered
        line_number, answer = asked.popleft()
        try:
            line = await answer
        except HubError as error:
            line = b""
            notices.say(f"line {line_number}: {error}")
        unanswered += not line
        await output.write(line)

    with Input(STDIN) as lines:
        async for some in lines.lines():
            for line, number in zip(some, numbers, strict=False):
                if not line:
                    continue
                try:
                    value = decode(line)
                except UnreadableError as error:
                    raise UnreadableError(f"standard input: line {number}: {error}") from error
                asked.append((number, asyncio.ensure_future(ask(value))))
                while len(asked) >= _OUTSTANDING:
                    await show_first()
            while asked and asked[0][1].done():
                await show_first()
        while asked:
            await show_first()
    await output.flush()
    return EXIT_UNANSWERED if unanswered else 0


_CONCURRENCY = 8
"""Starting a command takes milliseconds of a core."""


class CommandError(HubError):
    """The command has failed; the text is the reason for the requester."""


async def serve(
    *prefixes: Annotated[str, Parameter(help="Prefixes of topics whose requests are answered.")],
    hub: HubFlags = DEFAULT_HUB,
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

    notices = Notices("serve")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    numbers = count(1)

    async def answer(request: ServiceRequest) -> Any:
        if next(numbers) == limit:
            stop.set()
        line = (await run_command(exec, request.topic, request.value)).removesuffix(b"\n")
        return decode_value(line) if line else None

    async with notices.connected(hub) as client:
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
                ended.cancel()
                stopped.cancel()
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
        output, complaint = await process.communicate(text + b"\n")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise CommandError(last or f"the command ended with exit code {process.returncode}")
    return output
