"""`ForHubs`: the named consumers of this hub, for clients of other hubs of the mesh.

```
another hub ─ REQUEST $hub/at/ID/consumers ─▶ ForHubs ─▶ Consumers, as for a client of this hub
            ─ "gone", or its hub is reached no more, or was started anew ─▶ he is a member of nothing
```

Owner: `Consumers`. Invariants: each question has one answer; a client whose hub is gone is a member of nothing, within
a second or with its next question. Bounds: `ANSWERING_LIMIT` questions that wait; clients are kept who have joined.
Not here: what other hubs' consumers are asked (`peers.journal.consumers.far_consumers`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from hub.batch import encode_value
from hub.core import Core
from hub.errors import CloseCode, HubError, RejectedError, RequestError
from hub.handler import Handler
from hub.request_frame import Status
from hub.requests.directed import Answer, Questions
from hub.requests.later import Later
from peers.journal.consumers.far_client import FarClient
from peers.journal.consumers.question import CONSUMERS_TOPIC, GONE, WHAT, Question, decode_question, pass_on
from peers.journal.consumers.statistics import ForHubsStatistics

__all__ = ["ANSWERING_LIMIT", "ForHubs"]

ANSWERING_LIMIT: Final = 4_096
"""Most questions of other hubs that wait, which are mostly those of members for messages."""


class _Hub(NamedTuple):
    run: int
    user: str | None
    """The user of the link that has brought its clients; None for a link without one."""
    clients: dict[int, FarClient]
    """Those who have joined, until they are gone."""


class ForHubs:
    """What other hubs ask.

    Args:
        core: Of the hub.
        functions: What answers, by what is asked: for whom, and with what value.
        gone: Takes somebody out of all that he is a member of.
    """

    def __init__(
        self,
        core: Core,
        functions: Mapping[str, Callable[[FarClient, Any], Any]],
        gone: Callable[[FarClient], object],
    ) -> None:
        self._core = core
        self._functions = functions
        self._leave = gone
        self._hubs: dict[bytes, _Hub] = {}
        # How many questions are not answered.
        self._waiting = 0
        self._answered_total = self._refused_total = 0
        core.requests.directed.add(WHAT, Questions(self._answer, pass_on))

    def tick(self) -> None:
        """Forget the clients of hubs that cannot be reached; to be called once a second."""
        for hub in [hub for hub in self._hubs if hub not in self._core.mesh.graph.reached]:
            self._forget(hub)

    def statistics(self) -> ForHubsStatistics:
        """Return who has joined, and what was asked so far."""
        clients = sum(len(hub.clients) for hub in self._hubs.values())
        return ForHubsStatistics(clients, self._waiting, ANSWERING_LIMIT, self._answered_total, self._refused_total)

    def _forget(self, hub: bytes) -> None:
        for client in self._hubs.pop(hub).clients.values():
            client.is_gone = True
            self._leave(client)

    def _answer(self, link: Handler, value: bytes, answer: Answer) -> None:
        """Answer another hub, now or later."""
        try:
            result = self._asked(link, decode_question(value))
        except (HubError, ValueError) as error:
            self._refused_total += 1
            _fail(answer, error)
            return
        self._answered_total += 1
        if not isinstance(result, Later):
            answer(Status.OK, encode_value(result))
            return
        self._waiting += 1

        def settle() -> None:
            self._waiting -= 1
            if result.error is not None:
                _fail(answer, result.error)
            else:
                answer(Status.OK, encode_value(result.value))

        result.then(settle)

    def _asked(self, link: Handler, question: Question) -> Any:
        """Return what is answered, or a `Later`.

        Raises:
            HubError: There is no answer; the text says why.
        """
        hub = self._hubs.get(question.hub)
        self._check_believed(link, question.hub, hub)
        if hub is not None and hub.run != question.run:
            self._forget(question.hub)
            hub = None
        known = None if hub is None else hub.clients.get(question.client)
        if question.what == GONE:
            if hub is not None and known is not None:
                del hub.clients[question.client]
                known.is_gone = True
                self._leave(known)
            return None
        function = self._functions.get(question.what)
        if function is None:
            raise RejectedError(CloseCode.BAD_DATA, "that hub answers no such question about its consumers")
        if self._waiting >= ANSWERING_LIMIT:
            raise RequestError(Status.OVERFLOW, f"{ANSWERING_LIMIT} questions of other hubs wait, which is the limit")
        if not question.what and link.rights is not None and not link.rights.may(link.acts.requesting, CONSUMERS_TOPIC):
            raise RequestError(Status.NOT_ALLOWED, f"{CONSUMERS_TOPIC}: not granted to the link")
        client = known or FarClient(link, question)
        if known is not None:
            known.adopt(link, question)
        elif question.what == "join":
            self._hubs.setdefault(question.hub, _Hub(question.run, _user(link), {})).clients[question.client] = client
        return function(client, question.value)

    def _check_believed(self, link: Handler, asking: bytes, hub: _Hub | None) -> None:
        """Ask who speaks of the clients of a hub: links of the user who has brought them, or the one that leads there.

        Raises:
            RequestError: It is another one.
        """
        if hub is None or hub.user == _user(link):
            return
        way = self._core.mesh.traffic.way_to(asking)
        if way is None or way[1] is not link:
            text = f"{CONSUMERS_TOPIC}: the clients of hub {asking.hex()} have come by the link of another user"
            raise RequestError(Status.NOT_ALLOWED, text)


def _user(link: Handler) -> str | None:
    return None if link.rights is None else link.rights.user.name


def _fail(answer: Answer, error: Exception) -> None:
    status = Status(error.status) if isinstance(error, RequestError) else Status.FAILED
    answer(status, encode_value(error.text if isinstance(error, RejectedError) else str(error)))
