"""`hub request`: send requests, and show the replies as JSON, a line each.

```
hub request TOPIC VALUE      one request
hub request TOPIC            one without a value (null)
hub request TOPIC -          each line of standard input; replies come in the order of the lines
```
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Annotated, Any

from cyclopts import Parameter

from hub.errors import HubError, RequestError
from peers.cli.flag_values import FlagError
from peers.cli.lines import STDIN, Input
from peers.cli.notices import Notices
from peers.cli.output import Output
from peers.cli.replay import UnreadableError, decode_json, decode_text, decode_value, flaw_of_json
from peers.cli.texts import escaped, escaped_lines, json_text
from peers.cli.url import HubFlags
from peers.client import Client, connect
from peers.client.requests import TIMEOUT_LIMIT_S

EXIT_UNANSWERED = 1
"""Not every request was answered with a value."""

_OUTSTANDING = 256
"""Most lines of standard input that wait for their replies."""


def request(  # noqa: PLR0913 -- one flag each
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
    hub: HubFlags = HubFlags(),  # noqa: B008 -- frozen
    timeout: Annotated[float, Parameter(help="Time limit of a reply, seconds.")] = 30.0,
    text: Annotated[bool, Parameter(help="VALUE or each line is text, even if it is valid JSON.", negative=())] = False,
    json: Annotated[
        bool, Parameter(help="VALUE or each line must be JSON; anything else is an error.", negative=())
    ] = False,
    service: Annotated[bool, Parameter(help="TOPIC is the name of a service, not a topic.", negative=())] = False,
) -> int:
    """Send a request to a service, and show its reply as JSON.

    Exit code 1 if a request was not answered with a value; standard error says why.
    """
    if not 0 < timeout <= TIMEOUT_LIMIT_S:
        raise FlagError(f"--timeout {timeout:g}: give more than 0 and at most {TIMEOUT_LIMIT_S:g} seconds")
    if json and text:
        raise FlagError("--json and --text exclude each other")
    decode = decode_text if text else decode_json if json else decode_value
    asking = _Asking(topic, timeout, decode, named=service)
    if value == STDIN:
        return asyncio.run(_ask_lines(asking, hub))
    given = None if value is None else os.fsencode(value)
    try:
        packed = None if given is None else asking.read(given)
    except UnreadableError as error:
        raise FlagError(f"VALUE is {error}") from error
    if given is not None and decode is decode_value and (flaw := flaw_of_json(given)):
        print(escaped(f"hub request: VALUE is sent as text, because it is not valid JSON: {flaw}"), file=sys.stderr)
    return asyncio.run(_ask_once(asking, packed, hub))


class _Asking:
    """Says whom to ask, and how."""

    def __init__(self, topic: str, timeout_s: float, decode: Callable[[bytes], Any], *, named: bool) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._named = named
        self._decode = decode

    def read(self, given: bytes) -> Any:
        """Return the value that stands on the command line, or in a line."""
        return self._decode(given)

    async def ask(self, client: Client, value: Any) -> Any:
        """Return the reply."""
        try:
            return await client.request(self._topic, value, timeout_s=self._timeout_s, name=self._named)
        except RequestError as error:
            raise type(error)(error.status, f"{self._topic}: {error.text}") from error


def _shown(reply: Any, notices: Notices) -> bytes:
    """Return a reply as a line of JSON; empty if it has no such form."""
    line = json_text(reply)
    if line is None:
        notices.say("a reply has no JSON form, and is not shown")
        return b""
    return (escaped_lines(line) if sys.stdout.isatty() else line) + b"\n"


async def _ask_once(asking: _Asking, value: Any, hub: HubFlags) -> int:
    notices = Notices("request")
    async with connect(hub.url, **notices.options(hub)) as client:
        line = _shown(await asking.ask(client, value), notices)
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
    return 0 if line else EXIT_UNANSWERED


async def _ask_lines(asking: _Asking, hub: HubFlags) -> int:
    notices = Notices("request")
    output = Output(sys.stdout.fileno())
    asked: deque[tuple[int, asyncio.Task[Any]]] = deque()
    numbers = count(1)
    unanswered = 0

    async def show_first() -> None:
        """Show the oldest reply, when it is there."""
        nonlocal unanswered
        line_number, answer = asked.popleft()
        try:
            line = _shown(await answer, notices)
        except HubError as error:
            line = b""
            notices.say(f"line {line_number}: {error}")
        unanswered += not line
        await output.write(line)

    with Input(STDIN) as lines:
        async with connect(hub.url, **notices.options(hub)) as client:
            async for some in lines.lines():
                for line, number in zip(some, numbers, strict=False):
                    if not line:
                        continue
                    asked.append((number, asyncio.create_task(asking.ask(client, _read(asking, line, number)))))
                    while len(asked) >= _OUTSTANDING:
                        await show_first()
                while asked and asked[0][1].done():
                    await show_first()
            while asked:
                await show_first()
    await output.flush()
    return EXIT_UNANSWERED if unanswered else 0


def _read(asking: _Asking, line: bytes, number: int) -> Any:
    """Return what a line of standard input asks."""
    try:
        return asking.read(line)
    except UnreadableError as error:
        raise UnreadableError(f"standard input: line {number}: {error}") from error
