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
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from hub.batch import encode_value
from hub.core import Core
from hub.errors import CloseCode, HubError, RejectedError, RequestError
from hub.handler import Handler
from hub.policy.grants import allows_by, covers_by
from hub.policy.policy import Action, Rights
from hub.policy.refusal import check_granted, check_prefixes_granted
from hub.request_frame import Status
from hub.requests.directed import Answer, Questions
from hub.requests.hub_services import Later
from hub.topics import RESERVED, printable
from peers.journal.consumers.statistics import ForHubsStatistics
from peers.journal.forms import GRANTED_LIMIT, NARROWED_PATHS, Paths
from peers.wire.reasons import MALFORMED

CONSUMERS_TOPIC: Final = RESERVED + "consumers"

WHAT: Final = "consumers"
"""What hubs ask each other for (`hub.requests.directed`)."""

QUESTIONS: Final = ("join", "take", "acknowledge", "nak", "in_progress", "leave", "remove", "commit")
"""What clients ask under `$hub/consumers/`; nothing behind it asks how all consumers stand."""

GONE: Final = "gone"
"""What their hub says when one of them is connected no more."""

ANSWER_MS: Final = 30_000
"""How long an answer may take, ms, beside the time for which a `take` waits."""

_HEAD_BYTES = 1024
"""Room that a link's frame has for what stands around an answer."""

_User = Annotated[str, msgspec.Meta(max_length=256)]


class Granted(msgspec.Struct, frozen=True, array_like=True):
    """What somebody on the way grants: a client, or a link that one hub takes the question from, or passes it on to."""

    user: _User
    journal: Paths
    """What may be read."""
    publish: Paths
    """Where dead letters may be published."""


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question."""

    hub: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    """The hub of the client."""
    run: int
    """A number of that hub that is another one when it was started anew: clients of before are gone then."""
    client: int
    """A number that the client alone has there."""
    what: str
    """One of `QUESTIONS`, or empty, or `GONE`."""
    value: Any = None
    """As the client has asked."""
    user: _User = ""
    """Who the client is; empty where there are no users."""
    is_admin: bool = True
    """Whether he may administer his hub."""
    frame_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1 << 32
    """The largest frame that he, and each link on the way, takes."""
    granted: Annotated[tuple[Granted, ...], msgspec.Meta(max_length=GRANTED_LIMIT)] = ()
    """Who all must grant what he reads. Without any, everything is."""


encode_question = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Question).decode


def decode_question(value: bytes) -> Question:
    """Read a question.

    Raises:
        RejectedError: It is none.
    """
    try:
        return _decode(value)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"no question: {printable(str(error))}") from error


def granted_by(rights: Rights | None, reads: Action, publishes: Action) -> tuple[Granted, ...]:
    """Return what somebody grants, to be added to a question; nothing where he has no rights, and so all.

    Args:
        rights: Of whom.
        reads: What he must be granted for what is read.
        publishes: What he must be granted for dead letters.

    Raises:
        RejectedError: There is too much to be compared.
    """
    if rights is None:
        return ()
    journal, publish = rights.paths(reads, NARROWED_PATHS), rights.paths(publishes, NARROWED_PATHS)
    if journal is None or publish is None:
        text = f"consumers: more than {NARROWED_PATHS} grants of user {printable(rights.user.name)} to be compared"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return (Granted(rights.user.name, tuple(journal), tuple(publish)),)


def pass_on(asker: Handler, link: Handler, value: bytes) -> bytes:
    """Return the question as it goes on over a link, with what this hub grants to both sides.

    What is read comes over `link` and goes to `asker`; dead letters are published the other way.

    Raises:
        RejectedError: It is none, or cannot go on.
    """
    question = decode_question(value)
    granted = question.granted
    if asker.is_link:
        granted += granted_by(asker.rights, asker.acts.seeing, asker.acts.publishing)
    granted += granted_by(link.rights, link.acts.publishing, link.acts.seeing)
    if len(granted) > GRANTED_LIMIT:
        text = f"consumers: {GRANTED_LIMIT} policies narrow this already, which is the limit"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    limits = [question.frame_bytes, link.frame_limit_bytes, *([asker.frame_limit_bytes] if asker.is_link else [])]
    frame_bytes = max(1, min(limits) - _HEAD_BYTES)
    return encode_question(msgspec.structs.replace(question, granted=granted, frame_bytes=frame_bytes))


_FRAME_BYTES: Final = 512 * 1024
"""Answers are no longer than half of this, so that what else is on the links waits little."""


class _Judge(NamedTuple):
    user: str
    reads: Callable[[str], bool]
    publishes: Callable[[str], bool]


class FarClient:
    """One client.

    Args:
        link: The link over which his hub asks.
        question: What it has asked.
    """

    __slots__ = ("_judges", "_link", "_question", "is_gone")

    def __init__(self, link: Handler, question: Question) -> None:
        self._link = link
        self._question = question
        self._judges = _judges(question.granted)
        self.is_gone = False
        """Whether he, or his hub, is connected no more; `ForHubs` says so."""

    @property
    def id(self) -> int:
        """The number of his connection at his hub."""
        return self._question.client

    @property
    def hub(self) -> str:
        """The id of his hub."""
        return self._question.hub.hex()

    def adopt(self, link: Handler, question: Question) -> None:
        """Take what his hub says now."""
        if question.granted != self._question.granted:
            self._judges = _judges(question.granted)
        self._link, self._question = link, question

    @property
    def owner(self) -> str:
        """Return the user that he is at his hub, beneath the one that the link is here, if there are such."""
        rights = self._link.rights
        users = ("" if rights is None else rights.user.name, self._question.user)
        return "/".join(filter(None, users))

    @property
    def is_admin(self) -> bool:
        """Whether he may administer his hub, and the link this one."""
        rights = self._link.rights
        return self._question.is_admin and (rights is None or rights.is_admin)

    @property
    def frame_limit_bytes(self) -> int:
        """The largest frame that all on the way take, and no more than is good for them."""
        return min(_FRAME_BYTES, self._question.frame_bytes, self._link.frame_limit_bytes)

    def reads(self, prefixes: tuple[str, ...]) -> bool:
        """Return whether all on the way grant these prefixes."""
        try:
            self.check_reads(prefixes)
        except RejectedError:
            return False
        return True

    def check_reads(self, prefixes: tuple[str, ...]) -> None:
        """See to it that all on the way grant these prefixes.

        Raises:
            RejectedError: One does not.
        """
        for judge in self._judges:
            for prefix in prefixes:
                if not judge.reads(prefix):
                    raise _refusal("journal", prefix, judge.user)
        check_prefixes_granted(self._link.rights, self._link.acts.seeing, prefixes)

    def check_publishes(self, topic: str) -> None:
        """See to it that all on the way grant a topic.

        Raises:
            RejectedError: One does not.
        """
        for judge in self._judges:
            if not judge.publishes(topic):
                raise _refusal("publish", topic, judge.user)
        check_granted(self._link.rights, self._link.acts.publishing, topic)


def _judges(granted: tuple[Granted, ...]) -> list[_Judge]:
    return [_Judge(one.user, covers_by(one.journal), allows_by(one.publish)) for one in granted]


def _refusal(what: str, topic: str, user: str) -> RejectedError:
    text = f"{what} {printable(topic)}: not granted as a whole to user {printable(user)}"
    return RejectedError(CloseCode.NOT_ALLOWED, text)


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
