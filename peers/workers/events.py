"""`EventsOfCore`, `EventsOfWorker`: what any process of a hub announces under `$hub/` reaches the subscribers of all.

```
worker 1 ─ announce ─┬─▶ its own subscribers
                     └─ control: "event" ─▶ core ─┬─▶ its own subscribers
                                                  └─ control: "event" ─▶ worker 2, if somebody there wants it
```

Each process looks once a second which of these topics are wanted there, and tells; nothing is sent to where nobody
wants it. So a subscription brings events of other processes within a second, as it does with messages.

What all processes know of themselves is not passed on, as it would come once from each: `$hub/mesh`, `$hub/names/...`,
`$hub/statistics`; and that all reload, or drain, is told by the core.

Each subscriber gets an event once. It costs a look into a set where no other process wants events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from hub.core import Core
from hub.statistics.events import AUDIT_TOPIC, Event
from hub.topics import RESERVED
from peers.journal.consumers.remote_consumers import CONSUMERS_TOPIC
from peers.journal.recorder import JOURNAL_TOPIC
from peers.workers.control import Control

LOOK_S: Final = 1.0  # How often a process looks what is wanted there

# What one process knows and others do not.
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
_OF_ALL: Final = frozenset({"reload", "drain"})  # What an admin does to all processes, and the core tells


def wanted(core: Core) -> list[str]:
    return [topic for topic in SHARED if core.system_events.is_wanted(topic)]


class EventsOfWorker:
    """Events of a worker; `control` leads to the core."""

    def __init__(self, core: Core, control: Control) -> None:
        self._core = core
        self._control = control
        self._elsewhere: frozenset[str] = frozenset()  # What others want, as the core has said last
        self._told: list[str] = []  # What is wanted here, as the core was told last
        core.system_events.announcing = self._announce

    def look(self) -> None:
        """Tell what is wanted here, if that has changed; to be called once in `LOOK_S`."""
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
        """Another process has announced something that is wanted here."""
        self._core.system_events.tell_here(Event(*told))

    def want(self, topics: Iterable[str]) -> None:
        self._elsewhere = frozenset(topics)


class EventsOfCore:
    """Events of the core, and of workers for each other; `controls` returns what leads to them, by number."""

    def __init__(self, core: Core, controls: Callable[[], Mapping[int, Control]]) -> None:
        self._core = core
        self._controls = controls
        self._wanted: dict[int, frozenset[str]] = {}  # What is wanted at each worker that has said so, by its number
        self._told: dict[int, frozenset[str]] = {}  # What each worker was told last of what others want
        self._here: frozenset[str] = frozenset()  # What is wanted at the core
        core.system_events.announcing = self._announce

    def look(self) -> None:
        """Look what is wanted here, and tell workers what is wanted elsewhere; to be called once in `LOOK_S`."""
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
