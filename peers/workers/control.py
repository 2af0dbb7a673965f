"""Between the core and a worker: questions and orders (`Control`), settings of a worker (`Orders`), and events.

```
[number, name, value]        asks, with a number that its answer bears; 0 where none is wanted
[number, null, value]        the answer
[number, false, text]        there is none, and why
```

These are msgpack arrays over a pair of sockets beside the link. Either side may ask. A function that is asked returns a
value, or a `Later`, or raises a `HubError`, whose text goes back. Both ends trust each other: input is not checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final, cast

import msgpack
import msgspec
import structlog

from hub.core import Core
from hub.errors import CloseCode, ConnectionLostError, HubError, UsageError
from hub.requests.hub_services import Later
from hub.settings.settings import Settings
from hub.statistics.events import AUDIT_TOPIC, Event
from hub.topics import RESERVED
from peers.connections.connection import Connection
from peers.daemon.sources import Loaded, given
from peers.journal.consumers.remote_consumers import CONSUMERS_TOPIC
from peers.journal.recorder import JOURNAL_TOPIC
from peers.wire.hello import fitting_name

_UNPACKED_BYTES = 2**31 - 1  # A thousand times the metrics of a hub with 10,000 handlers
_WRITTEN_S: Final = 0.005  # Interval of looking at a queue: no event says that it is empty, and a hub stops once
LOOK_S: Final = 1.0  # Interval of looking at subscriptions to events
# A worker numbers its handlers from here times the number of its start, so that ids are unique in the hub; 900,000
# starts fit into the integers of JavaScript
IDS_PER_START: Final = 10_000_000_000
Functions = Mapping[str, Callable[[Any], Any]]  # What the other end may ask, by name


class Control(asyncio.Protocol):
    """One end; `functions` is what the other end may ask."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._loop = asyncio.get_running_loop()
        self._unpacker = msgpack.Unpacker(max_buffer_size=_UNPACKED_BYTES, strict_map_key=False)
        self._numbers = count(1)
        self._transport: asyncio.Transport | None = None
        self._asked: dict[int, asyncio.Future[Any]] = {}  # Unanswered questions by number
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
        asked.add_done_callback(lambda _: self._asked.pop(number, None))  # also if the asker gives up
        self._send([number, name, value])
        return asked

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

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

    def _answer(self, number: int, name: str, value: Any) -> None:
        try:
            result = self._functions[name](value)
        except HubError as error:
            self._reply(number, False, str(error))
            return
        except Exception as error:  # noqa: BLE001 -- the last line of defence: a question must not end a process
            structlog.get_logger("peers").exception(
                "a question of another process failed because of a bug, please report it", asked=name, error=repr(error)
            )
            self._reply(number, False, "a bug of the hub, please report it; its log has more")
            return
        if not isinstance(result, Later):
            self._reply(number, None, result)
            return

        def give() -> None:
            is_given = result.error is None
            self._reply(number, None if is_given else False, result.value if is_given else str(result.error))

        result.then(give)

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


async def wait_written(link: Connection) -> None:
    """Wait until the queue of a link was handed to its transport, or the link is gone."""
    while link.handler is not None and link.handler.queued_messages:  # noqa: ASYNC110 -- see above
        await asyncio.sleep(_WRITTEN_S)


class Orders(msgspec.Struct):
    """The first orders of the core to a worker."""

    settings: dict[str, Any]  # As a TOML file would have them
    name: str  # Of the hub
    number: int  # Of its place, from 1
    start: int  # Number of its process among all that were started, from 1

    @property
    def own_name(self) -> str:
        """The name of the worker as a hub of the mesh."""
        return fitting_name(self.name, f"/{self.number}")

    def loaded(self) -> Loaded:
        return given(("the core", self.settings))


def of_worker(settings: Settings, listen: tuple[str, ...], core: bytes) -> Settings:
    """Return the settings of a worker of the core with this id; `listen` has the ports that the core has picked.

    The core alone has links to other hubs, the journal, stores and Zeeks. A worker uses the journal of the core, if
    there is one, and has its part of `drain.clients_per_s` and of the memory. Other limits are those of each process.
    """
    replace = msgspec.structs.replace
    journal_of = core.hex() if settings.journal.path else settings.journal.of
    rate = max(1, settings.drain.clients_per_s // settings.workers)
    return replace(
        settings,
        listen=listen,
        peers=(),
        journal=replace(settings.journal, path="", tier="", of=journal_of),
        stores=replace(settings.stores, open=(), feeds=()),
        zeek=replace(settings.zeek, masters=(), clones=()),
        access=replace(settings.access, peer_token=""),
        drain=replace(settings.drain, clients_per_s=rate),
    )


# Events that one process knows and others do not. Events that all processes announce themselves are not shared:
# `$hub/mesh`, `$hub/names/...`, `$hub/statistics`.
SHARED: Final = (
    *(
        RESERVED + ending
        for ending in (
            *("client/joined", "client/left", "peer/joined", "peer/left", "links/lost", "overflow", "unreadable"),
            *(f"peers/{what}" for what in ("added", "removed", "lost", "unavailable")),
            *("nodes/up", "nodes/down"),
        )
    ),
    AUDIT_TOPIC,
    JOURNAL_TOPIC,
    CONSUMERS_TOPIC,
)
_OF_ALL: Final = frozenset({"reload", "drain"})  # Of an admin for all processes, which the core announces


def wanted(core: Core) -> list[str]:
    return [topic for topic in SHARED if core.system_events.is_wanted(topic)]


class EventsOfWorker:
    """Passes events of a worker to the core, and those of others to its subscribers; each subscriber gets one once.

    Each process looks once a second which shared events have subscribers there, and reports that: so a subscription
    brings events of other processes within a second, as it does with messages.
    """

    def __init__(self, core: Core, control: Control) -> None:
        self._core = core
        self._control = control
        self._elsewhere: frozenset[str] = frozenset()  # Topics that others want
        self._told: list[str] = []  # Topics wanted here, as last reported
        core.system_events.announcing = self._announce

    def look(self) -> None:
        """Report the wanted topics, if they have changed; to be called once in `LOOK_S`."""
        here = wanted(self._core)
        if here != self._told:
            self._told = here
            self._control.tell("wants", here)

    def _announce(self, event: Event) -> None:
        if event.topic == AUDIT_TOPIC and event.value["what"] in _OF_ALL and "failed" not in event.value:
            return
        self._core.system_events.tell_here(event)
        if event.topic in self._elsewhere:
            self._control.tell("event", list(event))

    def hear(self, told: Any) -> None:
        self._core.system_events.tell_here(Event(*told))

    def want(self, topics: Iterable[str]) -> None:
        self._elsewhere = frozenset(topics)


class EventsOfCore:
    """Passes events of the core, and of workers for each other; `controls` returns their controls by number."""

    def __init__(self, core: Core, controls: Callable[[], Mapping[int, Control]]) -> None:
        self._core = core
        self._controls = controls
        self._wanted: dict[int, frozenset[str]] = {}  # Topics wanted at each worker
        self._told: dict[int, frozenset[str]] = {}  # Topics wanted elsewhere, as last sent to each worker
        self._here: frozenset[str] = frozenset()  # Topics wanted at the core
        core.system_events.announcing = self._announce

    def look(self) -> None:
        """Send workers the topics that are wanted elsewhere, if they have changed; to be called once in `LOOK_S`."""
        self._here = frozenset(wanted(self._core))
        self._tell()

    def want(self, number: int, topics: Iterable[str]) -> None:
        self._wanted[number] = frozenset(topics)
        self._tell()

    def leave(self, number: int) -> None:
        self._wanted.pop(number, None)
        self._told.pop(number, None)

    def hear(self, number: int, told: Any) -> None:
        event = Event(*told)
        self._core.system_events.tell_here(event)
        self._pass_on(event, but=number)

    def _announce(self, event: Event) -> None:
        self._core.system_events.tell_here(event)
        self._pass_on(event)

    def _pass_on(self, event: Event, but: int = 0) -> None:
        if not self._wanted:
            return
        controls = self._controls()
        for number, topics in self._wanted.items():
            if number != but and event.topic in topics and number in controls:
                controls[number].tell("event", list(event))

    def _tell(self) -> None:
        for number, control in self._controls().items():
            others = [topics for one, topics in self._wanted.items() if one != number]
            elsewhere = self._here.union(*others)
            if elsewhere != self._told.get(number, frozenset()):
                self._told[number] = elsewhere
                control.tell("wants", sorted(elsewhere))
