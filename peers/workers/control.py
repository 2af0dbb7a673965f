"""`Control`: what the core and a worker ask each other, over a pair of sockets beside their link.

```
[number, name, value]        asks, with a number that its answer bears; 0 where none is wanted
[number, null, value]        the answer
[number, false, text]        there is none, and why
```

These are msgpack arrays, one behind the other. Either side may ask. A function that is asked returns a value, or a
`Later`, or raises a `HubError`, whose text goes back.

Each question gets an answer, or an error once the channel is lost. Both ends trust each other: input is not checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final, cast

import msgpack
import structlog

from hub.errors import CloseCode, ConnectionLostError, HubError, UsageError
from hub.requests.hub_services import Later
from peers.connections.connection import Connection

_UNPACKED_BYTES = 2**31 - 1  # A thousand times the metrics of a hub with 10,000 handlers
Functions = Mapping[str, Callable[[Any], Any]]  # What the other end may ask, by name


class Control(asyncio.Protocol):
    """One end; `functions` is what the other end may ask."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._loop = asyncio.get_running_loop()
        self._unpacker = msgpack.Unpacker(max_buffer_size=_UNPACKED_BYTES, strict_map_key=False)
        self._numbers = count(1)
        self._transport: asyncio.Transport | None = None
        self._asked: dict[int, asyncio.Future[Any]] = {}  # What was asked and has no answer yet, by number
        self.lost: asyncio.Future[None] = self._loop.create_future()  # Done when the other end is gone

    def tell(self, name: str, value: Any = None) -> None:
        self._send([0, name, value])

    def ask(self, name: str, value: Any = None) -> asyncio.Future[Any]:
        asked: asyncio.Future[Any] = self._loop.create_future()
        if self.lost.done():
            asked.set_exception(_gone())
            return asked
        number = next(self._numbers)
        self._asked[number] = asked
        asked.add_done_callback(lambda _: self._asked.pop(number, None))  # also if whoever has asked gives up
        self._send([number, name, value])
        return asked

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        for number, name, value in self._unpacker:
            if isinstance(name, str):
                self._answer(number, name, value)
            else:
                self._take_answer(number, value, is_failure=name is False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- asyncio's signature
        for asked in list(self._asked.values()):
            if not asked.done():
                asked.set_exception(_gone())
        if not self.lost.done():
            self.lost.set_result(None)

    # Messages.

    def _answer(self, number: int, name: str, value: Any) -> None:
        try:
            result = self._functions[name](value)
        except HubError as error:
            self._reply(number, False, str(error))
            return
        except Exception as error:  # noqa: BLE001 -- the last line of defence: what is asked must not end a process
            structlog.get_logger("peers").exception(
                "what another process has asked failed by a bug, please report it", asked=name, error=repr(error)
            )
            self._reply(number, False, "a bug of the hub, please report it; its log has more")
            return
        if isinstance(result, Later):
            result.then(lambda: self._give(number, result))
        else:
            self._reply(number, None, result)

    def _give(self, number: int, later: Later) -> None:
        if later.error is not None:
            self._reply(number, False, str(later.error))
        else:
            self._reply(number, None, later.value)

    def _reply(self, number: int, kind: Any, value: Any) -> None:
        if number:
            self._send([number, kind, value])

    def _take_answer(self, number: int, value: Any, *, is_failure: bool) -> None:
        asked = self._asked.get(number)
        if asked is None or asked.done():
            return
        if is_failure:
            asked.set_exception(UsageError(value))
        else:
            asked.set_result(value)

    def _send(self, message: list[Any]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(msgpack.packb(message))


def _gone() -> ConnectionLostError:
    return ConnectionLostError(CloseCode.GOING_AWAY, "the other process of this hub is gone")


_LOOK_S: Final = 0.005  # How often the queue is looked at: nothing tells when it is empty, and a hub stops once


async def wait_written(link: Connection) -> None:
    """Wait until all that waited for a link was handed to its transport, or the link is gone."""
    while link.handler is not None and link.handler.queued_messages:  # noqa: ASYNC110 -- see above
        await asyncio.sleep(_LOOK_S)
