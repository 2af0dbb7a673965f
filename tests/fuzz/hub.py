"""A whole hub whose sockets are pretended: bytes go in at one end, and all that happens is looked at.

```
input ─▶ connection under test ─▶ Core ─▶ watchers: a client of each kind, subscribed to everything
                               loop: what is left over for later turns is counted; an error in it is raised
```

The daemon makes its connections, as it does for real sockets, but it never listens. What the input publishes is written
out to a client of each kind, so that every conversion is fuzzed with it. When the connection ends, nothing of it may be
left in the hub.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from collections import deque
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, cast

import structlog

from peers.daemon.daemon import Daemon
from peers.daemon.sources import load
from peers.journal.journal import Journal
from peers.transport.endpoints import Endpoint
from peers.wire.control import encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.scanner import NEED_DATA
from peers.zeek.broker.session import Peered, PeerKnown, Session
from tests.hubs.mesh_peer import hub_hello
from tests.hubs.raw_websocket import frame, text, upgrade
from tests.wire.pair import Table

CLIENT = Hello(protocol=1, role="client", name="fuzz").encode()
LINK = hub_hello(id=bytes(range(1, 17)), name="fuzz")
_READ_BYTES = 16 * 1024
_TURNS = 2_000  # most turns of the loop in which the hub works on one input: hundreds are the most that was seen

_ANSWER_FACTOR = 400
"""Most bytes that are written for each byte that came: an empty message is answered by an error that says why."""

_ANSWER_BYTES = 256 * 1024  # and so many for nothing: a record of statistics, a name list

_READ_S = 20.0  # longest that reader processes may be busy with one input

_JOURNAL = {"commit_s": 0.001, "readers": 1, "staged_bytes": "256KiB"}
_LIMITS = {"frame_bytes": 64 * 1024, "prefixes_per_client": 50, "rules_per_client": 50, "handshake_bytes": 8 * 1024}


class Wire(asyncio.Transport):
    def __init__(self, protocol: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000), "sockname": ("127.0.0.1", 7400), "socket": None})
        self._protocol = protocol
        self._loop = loop
        self._unread: deque[bytes] = deque()
        self._reading = True
        self._closing = False
        self.written_bytes = 0
        self.kept: list[bytes] | None = None
        protocol.connection_made(self)

    # For the test.

    def bring(self, data: bytes) -> None:
        self._unread.extend(data[at : at + _READ_BYTES] for at in range(0, len(data), _READ_BYTES))
        self._read()

    def end(self) -> None:
        self._unread.clear()
        self.abort()

    def _read(self) -> None:
        while self._unread and self._reading and not self._closing:
            data = self._unread.popleft()
            if isinstance(self._protocol, asyncio.BufferedProtocol):
                while data:
                    buffer = cast("memoryview", self._protocol.get_buffer(-1))
                    size = min(len(buffer), len(data))
                    buffer[:size] = data[:size]
                    data = data[size:]
                    self._protocol.buffer_updated(size)
                    if not self._reading and data:
                        self._unread.appendleft(data)
                        break
            else:
                self._protocol.data_received(data)

    # What a connection asks of a transport.

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._loop.call_soon(self._read)

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written_bytes += len(data)
        if self.kept is not None:
            self.kept.append(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        for data in list_of_data:
            self.write(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None: ...

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)


class FuzzedHub:
    """A hub, its loop, and those who watch.

    Args:
        journal: The file of its journal; None for a hub without one. Whoever makes a hub with a journal closes it.
    """

    def __init__(self, journal: Path | None = None) -> None:
        self._wrong: list[str] = []
        self._journal: Journal | None = None
        structlog.configure(processors=[self._note], cache_logger_on_first_use=False)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda _, context: self._wrong.append(_told(context)))
        self._daemon = self._loop.run_until_complete(self._start(journal))
        self.server = self._daemon.server
        self._watch()
        self._watchers = len(self._wires)
        self._handlers = len(self.server.core.handlers)
        assert self._handlers == self._watchers + (journal is not None), self._wrong
        self._subscriptions = self.server.core.statistics().routing.subscriptions

    async def _start(self, journal: Path | None) -> Daemon:
        flags = {"limits": _LIMITS, "queue": {"messages": 100, "bytes": "256KiB"}, "zeek": {"topics": ["/"]}}
        daemon = Daemon(load(flags | ({"journal": _JOURNAL | {"path": str(journal)}} if journal else {}), {}), "hub")
        if journal:
            settings = daemon.server.settings
            daemon.server.journal = self._journal = Journal(daemon.server.core, settings.journal, settings.limits)
        daemon.server.ready = True
        return daemon

    def connect(self, url: str) -> Wire:
        return Wire(self._daemon._maker(Endpoint.parse(url))(), self._loop)

    def _watch(self) -> None:
        wires = [self.connect("tcp://127.0.0.1:1"), *(self.connect("ws://127.0.0.1:1") for _ in range(3))]
        wires[0].bring(CLIENT + encode_subscription(Kind.SUBSCRIBE, ["/", "$hub/"]))
        wires[1].bring(upgrade("hub.v1.json") + text({"type": "subscribe", "prefixes": ["/", "$hub/"]}))
        wires[2].bring(upgrade("hub.v1.msgpack") + frame(2, _PACKED_SUBSCRIBE))
        wires[3].bring(upgrade("", path="/v1/messages/json") + frame(1, b'["/"]'))
        zeek = self.connect("zeek+tcp://127.0.0.1:1")
        self.peer(zeek)
        self._wires = [*wires, zeek]
        self.settle()

    def peer(self, wire: Wire, id_byte: bytes = b"\x11") -> Session[Any]:
        session: Session[Any] = Session(id_byte * 16, "connector", Table(), ["/"])
        wire.kept = []
        for _ in range(20):
            wire.bring(session.take_outgoing())
            self.settle()
            session.feed(b"".join(wire.kept))
            wire.kept.clear()
            event = session.next_event()
            while event is not NEED_DATA and not isinstance(event, Peered):
                if isinstance(event, PeerKnown):
                    session.proceed()
                event = session.next_event()
            if isinstance(event, Peered):
                wire.bring(session.take_outgoing())
                wire.kept = None
                return session
        raise AssertionError("no peering came about")

    def settle(self) -> int:
        ready = self._loop._ready  # type: ignore[attr-defined]
        turns = 0
        while ready:
            assert turns < _TURNS, "the hub is busy for ever with one input"
            turns += 1
            self._loop.call_soon(self._loop.stop)
            self._loop.run_forever()
        return turns

    def check(self, wire: Wire, size: int) -> None:
        self.settle()
        self._record()
        if self._journal is None:  # history is as long as it is
            assert wire.written_bytes <= _ANSWER_FACTOR * size + _ANSWER_BYTES, f"{wire.written_bytes} bytes of answers"
        wire.end()
        self.settle()
        self._record()
        core = self.server.core
        wrong, self._wrong = self._wrong, []
        assert not wrong, "\n".join(wrong)
        assert len(core.handlers) == self._handlers, "a handler is left"
        assert core.statistics().routing.subscriptions == self._subscriptions, "a subscription is left"
        assert core.requests.statistics().services == 0, "a service is left"
        assert core.requests.statistics().pending == 0, "a request is left"
        assert core.names.statistics().names == 0, "a name is left"
        assert len(self.server.connections) == self._watchers, "a connection is left"

    def _record(self) -> None:
        journal = self._journal
        if journal is None:
            return
        self._loop.run_until_complete(journal.settle())
        self.settle()
        journal._staging.sweep(math.inf)
        assert len(journal._staging) == journal._staging.size_bytes == 0, "something staged is left"
        assert journal.trouble == "", journal.trouble
        deadline_s = self._loop.time() + _READ_S
        while len(self.server.connections) == self._watchers and journal.statistics().fetches:
            assert self._loop.time() < deadline_s, "what somebody asked of the journal who has gone is read for ever"
            self._loop.run_until_complete(asyncio.sleep(0.001))

    def close(self) -> None:
        if self._journal is not None:
            self._loop.run_until_complete(self._journal.stop())
        self._loop.close()

    def run(self, url: str, data: bytes, greet: Callable[[Wire], object] | None = None) -> None:
        wire = self.connect(url)
        if greet is not None:
            greet(wire)
            self.settle()
        if self._journal is None:
            wire.bring(data)
        else:  # which starts processes, and can do so only in its loop
            self._loop.call_soon(wire.bring, data)
        self.check(wire, len(data))

    def _note(self, _logger: object, method: str, line: MutableMapping[str, Any]) -> str:
        if method in {"error", "exception", "critical"}:
            self._wrong.append(str(dict(line)))
        raise structlog.DropEvent


_PACKED_SUBSCRIBE = b"\x82\xa4type\xa9subscribe\xa8prefixes\x92\xa1/\xa5$hub/"


def _told(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return str(context["message"]) + "\n" + ("" if error is None else "".join(traceback.format_exception(error)))
