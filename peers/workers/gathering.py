"""`Gathering` and `FromWorker`: what is asked of a hub of several processes, at the core, and at a worker.

```
client ─▶ worker ── FromWorker ── control ──▶ core ── Gathering ─┬─ control ─▶ each worker ── Parts
                                                                 └─ Parts (its own)
```

Each question gets one answer, within `ANSWER_S`; a process that is gone, or does not answer in time, is left out and
counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from hub.errors import HubError, InternalError, PeerError, UsageError
from hub.handlers.handler import Handler
from hub.requests.hub_services import Later
from hub.topics import RESERVED
from peers.admin.access import audited, kick, users
from peers.admin.graph import links_here
from peers.admin.services import NODES_TOPIC, journal, nodes, served_here, settings
from peers.admin.state import history, losses, state, statistics
from peers.admin.steps import awaited, in_steps
from peers.admin.topics import counted_here, subscribers_here
from peers.admin.who import who
from peers.daemon.reviewing import identities
from peers.journal.recorder import JOURNAL_TOPIC
from peers.server.audit import By, who_did
from peers.server.server import Server, Whole
from peers.stores.stores import STORES_TOPIC
from peers.workers.control import Control
from peers.workers.merging import MERGES, PAGES, WorkerCounts, exposition_of_all, plain, why_unready

ANSWER_S: Final = 2.0  # How long a process may take to answer: a hundred times what it takes with thousands of clients
CORE_S: Final = 2 * ANSWER_S  # How long a worker waits for the core, which may wait for others
_TAKES_ITS_TIME = frozenset({"reload"})
Part = Callable[[Any, Any], Any]  # Answers a question for one process: who asks, and with what value
_OF_ALL = ("who", "users", "kick", "audit")  # Services that all processes of a hub answer together; for admins
_OF_ALL_BY_GRANT = ("state", "losses", "history")  # Likewise, for users to whom the policy grants them


class Parts:
    """What one process answers."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.functions: dict[str, Part] = {
            "metrics": lambda _by, _value: plain(server),
            "ready": lambda _by, _value: server.unready,
            "statistics": lambda _by, _value: statistics(server),
            "who": who(server),
            "users": users(server),
            "state": state(server),
            "losses": losses(server),
            "history": history(server),
            "kick": kick(server),
            "services": lambda _by, after: in_steps(server, served_here(server, after)),
            "links": lambda _by, _value: links_here(server),
            "identities": lambda _by, _value: identities(server),
            "topics": lambda _by, under: in_steps(server, counted_here(server, under)),
            "subscribers": lambda _by, prefixes: in_steps(server, subscribers_here(server, prefixes)),
            "audit": audited(server),
        }

    def answer(self, question: Any) -> Any:
        """Answer a question that was asked of all processes.

        Raises:
            HubError: There is no answer; the text says why.
        """
        what, value, by = question
        asker: By = self._server.core.handlers.get(by.get("id", 0)) or by
        return self.functions[what](asker, value)


class Gathering:
    """All processes, as the core asks them: itself, and the `workers` by their numbers."""

    def __init__(
        self,
        server: Server,
        workers: Callable[[], Iterable[tuple[int, Control]]],
        counts: Callable[[int], WorkerCounts],
    ) -> None:
        self._server = server
        self._loop = server.loop
        self._workers = workers
        self._counts = counts
        self._tasks: set[asyncio.Task[None]] = set()
        self.parts = Parts(server)
        self.of_core: dict[str, Part] = {
            "alive": lambda _by, _value: server.clock_trouble,
            "stores": lambda _by, _value: server.stores.listed(),
            "nodes": nodes(server),
            "journal": journal(server),
            "settings": settings(server),
        }
        self.afterwards: dict[str, Callable[[By], None]] = {}  # What the core does once all have answered
        self.silent_total = 0  # Answers that did not come in time

    def ask(self, what: str, value: Any = None, by: Handler | None = None) -> Later:
        """Ask all processes."""
        return self.answer([what, value, {} if by is None else who_did(by)])

    def answer(self, question: Any) -> Later:
        """Answer a question that a worker, or the core, was asked."""
        later = Later()
        task = self._loop.create_task(self._gather(question, later), name="ask all processes")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return later

    async def _gather(self, question: Any, later: Later) -> None:
        what, value, by = question
        try:
            if what in self.of_core:
                later.give(await awaited(self.of_core[what](by or None, value)))
                return
            answers = await self._answers(question)
            counts = self._counts(self.silent_total)
            if what == "metrics":
                later.give(exposition_of_all(counts, answers))
            elif what == "ready":
                later.give(why_unready(counts, answers))
            else:
                later.give(_merged(what, value, [answer for _, answer in answers]))
            if what in self.afterwards:  # whoever has asked has his answer by then
                self.afterwards[what](by)
        except HubError as error:
            later.fail(error)
        except Exception as error:
            self._server.log.exception("a request to the hub failed by a bug, please report it", error=repr(error))
            later.fail(InternalError("a bug of the hub, please report it; its log has more"))

    async def _answers(self, question: Any) -> list[tuple[str, Any]]:
        """Return what the processes have answered, each with its name, that of the core first.

        Raises:
            HubError: None has an answer; the text is that of the first reason.
        """
        asked = {str(number): control.ask("part", question) for number, control in self._workers()}
        answers, reasons = [], []
        try:
            answers.append(("core", await awaited(self.parts.answer(question))))
        except HubError as error:
            reasons.append(error)
        if asked:
            await asyncio.wait(asked.values(), timeout=ANSWER_S)
        silent = 0
        for name, one in asked.items():
            if not one.done():
                one.cancel()
                silent += 1
            elif (failure := one.exception()) is None:
                answers.append((name, one.result()))
            elif not isinstance(failure, PeerError):  # that is a worker that is gone
                reasons.append(UsageError(str(failure)))
        self.silent_total += silent
        if not answers:
            raise reasons[0] if reasons else UsageError("no process of this hub has answered")
        return answers


class FromWorker:
    """All processes, as a worker asks them."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def ask(self, what: str, value: Any = None, by: Handler | None = None) -> Later:
        """Ask the core, which asks all."""
        later = Later()

        asked = self._control.ask("whole", [what, value, {} if by is None else who_did(by)])
        limit = None
        if what not in _TAKES_ITS_TIME:
            limit = asked.get_loop().call_later(CORE_S, asked.cancel)

        def settle(asked: asyncio.Future[Any]) -> None:
            if limit is not None:
                limit.cancel()
            if asked.cancelled():
                later.fail(UsageError(f"the core of this hub has not answered within {CORE_S:g} s"))
                return
            error = asked.exception()
            if error is None:
                later.give(asked.result())
            else:
                later.fail(UsageError(str(error)))

        asked.add_done_callback(settle)
        return later


def share_services(server: Server, whole: Whole, others: Iterable[str] = ()) -> None:
    """Let a process answer for the whole hub what admins ask of it, and `others`."""
    server.whole = whole
    for what in (*_OF_ALL, "settings", *others):
        server.core.requests.hub_services.add(RESERVED + what, _asking(whole, what), for_admins=True)
    for what in _OF_ALL_BY_GRANT:
        server.core.requests.hub_services.add(RESERVED + what, _asking(whole, what))
    server.core.requests.hub_services.add(STORES_TOPIC, _asking(whole, "stores"))
    server.core.requests.hub_services.add(NODES_TOPIC, _asking(whole, "nodes"))
    server.core.requests.hub_services.add(JOURNAL_TOPIC, _asking(whole, "journal"))


def _asking(whole: Whole, what: str) -> Callable[[Handler, Any], Later]:
    return lambda handler, value: whole.ask(what, value, handler)


def _merged(what: str, value: Any, parts: list[Any]) -> Any:
    return PAGES[what](parts, value) if what in PAGES else MERGES[what](parts)
