"""`HubRow`: hubs in a row, each a process that is linked with the one before it.

```
publishers ─▶ hub 1 ── hub 2 ── ... ── hub N        subscribers at hub K: `seen_from(K)`
```

They listen on ports of loopback that the system picks. Queues of links hold as many messages as a benchmark lets be on
their way, so that what is lost is lost by a fault.

Owner of the state: the command. Cost: half a second for each hub to start, and 3 s until all of them agree for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Final, Self

from hub.errors import RequestError
from hub.mesh.mesh import SETTLE_S
from hub.topics import RESERVED
from peers.bench.errors import BenchError
from peers.bench.running_hub import RunningHub
from peers.bench.usage import Usage
from peers.client.blocking import connect

__all__ = ["QUEUE_MESSAGES", "HubRow", "SeenFrom"]

QUEUE_MESSAGES: Final = 65_536
"""How many messages a queue in it holds: of a link, and of a subscriber."""

_KNOWN_S = 30.0
"""How long news takes at most to cross the row, on a machine with other work."""

_LOOK_S = 0.2
_PROGRAM = ("-m", "peers.cli")


class HubRow:
    """Some hubs, from the beginning of the `with` statement to its end.

    Args:
        hubs: How many, 1 or more.
        flags: Further flags of each `hub run`.
        program: What Python is given to run the command line.
    """

    def __init__(self, hubs: int, flags: tuple[str, ...] = (), program: tuple[str, ...] = _PROGRAM) -> None:
        self._count = hubs
        self._flags = flags
        self._program = program
        self._stack = ExitStack()
        self.hubs: list[RunningHub] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # which ends what was started, if this fails
            for number in range(1, self._count + 1):
                hub = RunningHub.start(("tcp",), self._flags_of(number), program=self._program)
                stack.callback(hub.stop)
                self.hubs.append(hub)
            self._wait(self._is_linked, "the hubs are not linked")
            time.sleep(max(SETTLE_S))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _flags_of(self, number: int) -> tuple[str, ...]:
        peer = ("--peer", self.hubs[-1].url("tcp")) if self.hubs else ()
        return ("--name", f"hub-{number}", "--queue-messages", str(QUEUE_MESSAGES), *peer, *self._flags)

    def _is_linked(self) -> bool:
        """Whether the first hub and the last one know the whole row."""
        return all(self._known(hub) == self._count for hub in (self.hubs[0], self.hubs[-1]))

    @staticmethod
    def _known(hub: RunningHub) -> int:
        with connect(hub.url("tcp")) as client:
            return len(client.request(RESERVED + "mesh/graph", None))

    @staticmethod
    def _wait(condition: Callable[[], bool], otherwise: str) -> None:
        deadline_s = time.monotonic() + _KNOWN_S
        while not condition():
            if time.monotonic() > deadline_s:
                raise BenchError(f"{otherwise} after {_KNOWN_S:g} s")
            time.sleep(_LOOK_S)

    def wait_wanted(self, topic: str, place: int) -> None:
        """Wait until a probe that enters at the first hub finds a subscriber at another one.

        Args:
            topic: Of the probe.
            place: Which hub, from 1.

        Raises:
            BenchError: It does not.
        """
        name = f"hub-{place}"

        def is_wanted() -> bool:
            with suppress(RequestError), connect(self.hubs[0].url("tcp")) as client:
                rows = client.request(RESERVED + "mesh/probe", {"topic": topic})
                return any(row["name"] == name and row["subscribers"] for row in rows)
            return False

        self._wait(is_wanted, f"{name} has a subscriber that the first hub does not know")

    def usage(self) -> list[Usage]:
        """Return what each hub has used."""
        return [hub.usage() for hub in self.hubs]

    def seen_from(self, place: int) -> SeenFrom:
        """Return the row as what is measured, with subscribers at one of its hubs.

        Args:
            place: Which, from 1.
        """
        return SeenFrom(self, place)


class SeenFrom:
    """A row of hubs that publishers enter at the first, and subscribers at another one.

    Args:
        row: The hubs.
        place: Where subscribers are, from 1.
    """

    def __init__(self, row: HubRow, place: int) -> None:
        self._row = row
        self._place = place

    def url(self, scheme: str) -> str:
        """Return where subscribers connect."""
        return self._row.hubs[self._place - 1].url(scheme)

    @property
    def publishers_url(self) -> str:
        """Where publishers connect."""
        return self._row.hubs[0].url("tcp")

    def wait_wanted(self, topic: str) -> None:
        """Wait until what is published under a topic comes to the subscribers."""
        self._row.wait_wanted(topic, self._place)

    def usage(self) -> Usage:
        """Return what all hubs together have used."""
        return Usage(*(sum(figures) for figures in zip(*self._row.usage(), strict=True)))

    def forget_peak(self) -> None:
        """Measure their peaks of memory from now on."""
        for hub in self._row.hubs:
            hub.forget_peak()

    def wait_quiet(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Wait until all hubs do (almost) nothing."""
        for hub in self._row.hubs:
            hub.wait_quiet(meanwhile)

    def stop(self) -> None:
        """Do nothing: the row is ended as a whole."""
