"""Named consumers across hubs: `RemoteConsumers` asks the hub of `journal.of`, `ForHubs` answers other hubs.

```
client ─ $hub/consumers/take ─▶ RemoteConsumers ─ REQUEST $hub/at/ID/consumers ─▶ ForHubs ─▶ Consumers
       ◀──────── rows ────────              ◀─────────── REPLY ────────────
```

The asking hub keeps no positions and no deliveries: an answer or acknowledgement lost on a link is a message that is
redelivered. If the way is lost, the client gets an error at once. A client is removed from its consumers when it
disconnects, or when its hub restarts or becomes unreachable.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from hub.core import Core
from hub.errors import CloseCode, HubError, RejectedError, RequestError
from hub.handlers.handler import Handler
from hub.messages.batch import decode_values, encode_value
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, KIND_MESSAGES, Frame
from hub.messages.request_frame import Reply, Status
from hub.policy.grants import allows_by, covers_by
from hub.policy.policy import Action, Rights, check_granted, check_prefixes_granted
from hub.requests.hub_services import Answer, Later, Questions, is_admin, target_at
from hub.topics import RESERVED, printable
from peers.journal.forms import GRANTED_LIMIT, NARROWED_PATHS, Paths
from peers.journal.remote_journals import Asking
from peers.wire.control import MALFORMED

CONSUMERS_TOPIC: Final = RESERVED + "consumers"
WHAT: Final = "consumers"  # the service name between hubs (`hub.requests.hub_services`)
QUESTIONS: Final = ("join", "take", "acknowledge", "nak", "in_progress", "leave", "remove", "commit")
"""Services under `$hub/consumers/`; without a suffix it lists all consumers."""

GONE: Final = "gone"  # says that a client has disconnected from its hub
ANSWER_MS: Final = 30_000  # how long an answer may take, ms, in addition to the wait of a `take`
_HEAD_BYTES = 1024  # room in a link's frame for the fields around an answer
_User = Annotated[str, msgspec.Meta(max_length=256)]


class Granted(msgspec.Struct, frozen=True, array_like=True):
    """The grants of a client, or of a link on the way."""

    user: _User
    journal: Paths
    publish: Paths


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question about consumers, from hub to hub."""

    hub: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    run: int  # random for each start of that hub: clients of an earlier run are gone
    client: int
    what: str  # one of `QUESTIONS`, empty for a list, or `GONE`
    value: Any = None
    user: _User = ""
    is_admin: bool = True
    frame_bytes: Annotated[int, msgspec.Meta(ge=1)] = 1 << 32
    granted: Annotated[tuple[Granted, ...], msgspec.Meta(max_length=GRANTED_LIMIT)] = ()
    """Policies that must all grant what is read; empty: everything is granted."""


encode_question = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Question).decode


def decode_question(value: bytes) -> Question:
    try:
        return _decode(value)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"no question: {printable(str(error))}") from error


def granted_by(rights: Rights | None, reads: Action, publishes: Action) -> tuple[Granted, ...]:
    """Return the grants to add to a question; none if rights are None, which grant everything."""
    if rights is None:
        return ()
    journal, publish = rights.paths(reads, NARROWED_PATHS), rights.paths(publishes, NARROWED_PATHS)
    if journal is None or publish is None:
        text = f"consumers: more than {NARROWED_PATHS} grants of user {printable(rights.user.name)} to be compared"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)
    return (Granted(rights.user.name, tuple(journal), tuple(publish)),)


def pass_on(asker: Handler, link: Handler, value: bytes) -> bytes:
    """Return the question for the next link, with this hub's grants for both sides.

    Records come over `link` and go to `asker`; dead letters are published the other way.
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


_FRAME_BYTES: Final = 512 * 1024  # answers take at most half of this, so that other messages on the links wait little


_Judge = tuple[
    str, Callable[[str], bool], Callable[[str], bool]
]  # user, and whether prefixes and dead letters are granted


class RemoteClient:
    """A client of another hub."""

    __slots__ = ("_judges", "_link", "_question", "is_gone")

    def __init__(self, link: Handler, question: Question) -> None:
        self._link = link
        self._question = question
        self._judges = _judges(question.granted)
        self.is_gone = False

    @property
    def id(self) -> int:
        return self._question.client

    @property
    def hub(self) -> str:
        return self._question.hub.hex()

    def adopt(self, link: Handler, question: Question) -> None:
        if question.granted != self._question.granted:
            self._judges = _judges(question.granted)
        self._link, self._question = link, question

    @property
    def owner(self) -> str:
        rights = self._link.rights
        users = ("" if rights is None else rights.user.name, self._question.user)
        return "/".join(filter(None, users))

    @property
    def is_admin(self) -> bool:
        rights = self._link.rights
        return self._question.is_admin and (rights is None or rights.is_admin)

    @property
    def frame_limit_bytes(self) -> int:
        return min(_FRAME_BYTES, self._question.frame_bytes, self._link.frame_limit_bytes)

    def reads(self, prefixes: tuple[str, ...]) -> bool:
        try:
            self.check_reads(prefixes)
        except RejectedError:
            return False
        return True

    def check_reads(self, prefixes: tuple[str, ...]) -> None:
        """Check that all policies on the way grant these prefixes; raises `RejectedError`."""
        for user, reads, _ in self._judges:
            for prefix in prefixes:
                _check(reads, "journal", prefix, user)
        check_prefixes_granted(self._link.rights, self._link.acts.seeing, prefixes)

    def check_publishes(self, topic: str) -> None:
        for user, _, publishes in self._judges:
            _check(publishes, "publish", topic, user)
        check_granted(self._link.rights, self._link.acts.publishing, topic)


def _check(grants: Callable[[str], bool], what: str, topic: str, user: str) -> None:
    if not grants(topic):
        text = f"{what} {printable(topic)}: not granted as a whole to user {printable(user)}"
        raise RejectedError(CloseCode.NOT_ALLOWED, text)


def _judges(granted: tuple[Granted, ...]) -> list[_Judge]:
    return [(one.user, covers_by(one.journal), allows_by(one.publish)) for one in granted]


ANSWERING_LIMIT: Final = 4_096  # most unanswered questions of other hubs; most of them are `take`


class _Hub(NamedTuple):
    run: int
    user: str | None  # the user of the link that has brought the clients; None for a link without a user
    clients: dict[int, RemoteClient]  # clients that have joined


class ForHubs:
    """Answers questions of other hubs, each once; `gone` removes a client from all its consumers."""

    def __init__(
        self,
        core: Core,
        functions: Mapping[str, Callable[[RemoteClient, Any], Any]],
        gone: Callable[[RemoteClient], object],
    ) -> None:
        self._core = core
        self._functions = functions
        self._leave = gone
        self._hubs: dict[bytes, _Hub] = {}
        self.answering = 0
        self.answered_total = self.refused_total = 0
        core.requests.directed[WHAT] = Questions(self._answer, pass_on)

    def tick(self) -> None:
        """Forget the clients of unreachable hubs; called once a second."""
        for hub in [hub for hub in self._hubs if hub not in self._core.mesh.graph.reached]:
            self._forget(hub)

    @property
    def clients(self) -> int:
        return sum(len(hub.clients) for hub in self._hubs.values())

    def _forget(self, hub: bytes) -> None:
        for client in self._hubs.pop(hub).clients.values():
            client.is_gone = True
            self._leave(client)

    def _answer(self, link: Handler, value: bytes, answer: Answer) -> None:
        try:
            result = self._asked(link, decode_question(value))
        except (HubError, ValueError) as error:
            self.refused_total += 1
            _fail(answer, error)
            return
        self.answered_total += 1
        if not isinstance(result, Later):
            answer(Status.OK, encode_value(result))
            return
        self.answering += 1

        def settle() -> None:
            self.answering -= 1
            if result.error is not None:
                _fail(answer, result.error)
            else:
                answer(Status.OK, encode_value(result.value))

        result.then(settle)

    def _asked(self, link: Handler, question: Question) -> Any:
        hub = self._hubs.get(question.hub)
        user = None if link.rights is None else link.rights.user.name
        if hub is not None and hub.user != user:
            self._check_leads_to(question.hub, link)
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
        if self.answering >= ANSWERING_LIMIT:
            raise RequestError(Status.OVERFLOW, f"{ANSWERING_LIMIT} questions of other hubs wait, which is the limit")
        if not question.what and link.rights is not None and not link.rights.may(link.acts.requesting, CONSUMERS_TOPIC):
            raise RequestError(Status.NOT_ALLOWED, f"{CONSUMERS_TOPIC}: not granted to the link")
        client = known or RemoteClient(link, question)
        if known is not None:
            known.adopt(link, question)
        elif question.what == "join":
            self._hubs.setdefault(question.hub, _Hub(question.run, user, {})).clients[question.client] = client
        return function(client, question.value)

    def _check_leads_to(self, hub: bytes, link: Handler) -> None:
        """Check that a link that has not brought the hub's clients leads there: else it may not speak for them."""
        way = self._core.mesh.way_to(hub)
        if way is None or way[1] is not link:
            text = f"{CONSUMERS_TOPIC}: the clients of hub {hub.hex()} have come by the link of another user"
            raise RequestError(Status.NOT_ALLOWED, text)


def _fail(answer: Answer, error: Exception) -> None:
    status = Status(error.status) if isinstance(error, RequestError) else Status.FAILED
    answer(status, encode_value(error.text if isinstance(error, RejectedError) else str(error)))


# The hub that asks

_TEXT_CHARACTERS: Final = 1000
_AS_IT_IS = frozenset({Status.FAILED, Status.OVERFLOW, Status.NOT_ALLOWED, Status.TOO_BIG})
"""Errors of the other hub; all other statuses mean that the way to it is lost."""

_LOST = frozenset({Status.OVERFLOW, Status.NO_RESPONDER, Status.RESPONDER_GONE, Status.TIMED_OUT})


class RemoteConsumers:
    """Clients' access to the consumers of the hub `of` (name or id); if empty, questions are only passed on.

    `find` returns the id of a hub by its name, or raises `RejectedError`.
    """

    def __init__(self, core: Core, of: str, find: Callable[[str], bytes], now_ms: Callable[[], int]) -> None:
        self._core = core
        self._of = of
        self._find = find
        self._asking = Asking(core, "consumers of another hub", now_ms)
        self._run = secrets.randbelow(1 << 62)
        self._joined: set[int] = set()  # ids of clients that have asked to join
        self._parted: set[int] = set()  # disconnected clients that the other hub does not know of yet
        self.asked_total = self.lost_total = 0  # questions asked, and those without an answer because the way was lost
        core.requests.directed[WHAT] = Questions(_refuse, pass_on)
        if not of:
            return
        services = core.requests.hub_services
        services.when_gone(self._gone)
        services.add(CONSUMERS_TOPIC, partial(self._ask, ""))
        for what in QUESTIONS:
            services.add(f"{CONSUMERS_TOPIC}/{what}", partial(self._ask, what), judges_itself=True)

    def tick(self) -> None:
        """Repeat notices of disconnected clients that were not confirmed; called once a second."""
        for client in list(self._parted):
            self._part(client)

    @property
    def clients(self) -> int:
        return len(self._joined)

    @property
    def pending(self) -> int:
        return len(self._asking)

    @property
    def unreported(self) -> int:
        return len(self._parted)

    def _ask(self, what: str, handler: Handler, value: Any) -> Later:
        rights = handler.rights
        if what == "join":
            self._joined.add(handler.id)
        try:
            granted = granted_by(rights, Action.JOURNAL, Action.PUBLISH)
        except RejectedError as error:
            raise RequestError(Status.NOT_ALLOWED, error.text) from error
        user, frame_bytes = "" if rights is None else rights.user.name, max(1, handler.frame_limit_bytes)
        asker = (self._core.mesh.hub, self._run, handler.id)
        question = Question(*asker, what, value, user, is_admin(handler), frame_bytes, granted)
        later = Later()

        def settle(outcome: Any) -> None:
            if isinstance(outcome, HubError):
                later.fail(outcome)
            else:
                later.give(None if what == "take" and handler.rights is not rights else outcome)

        self._send(question, settle, _wait_ms(value) if what == "take" else 0)
        return later

    def _send(self, question: Question, take: Callable[[Any], object], wait_ms: int = 0) -> None:
        self.asked_total += 1
        try:
            hub = self._find(self._of)
        except RejectedError as error:
            self.lost_total += 1
            raise RequestError(Status.RESPONDER_GONE, f"journal.of: {error.text}") from error
        target = target_at(hub, WHAT)
        self._asking.ask(target, ANSWER_MS + wait_ms, encode_question(question), lambda reply: take(self._told(reply)))

    def _told(self, reply: Reply) -> Any:
        body = reply.values[BATCH_COUNT.size :] if reply.flags & FLAG_BATCH else reply.values
        there = f"consumers of hub {printable(self._of)}"
        try:
            value = decode_values(Frame(KIND_MESSAGES, 0, b"", body))[0]
        except ValueError:
            return RejectedError(CloseCode.JOURNAL_FAILED, f"{there}: that was no answer")
        if reply.status == Status.OK:
            return value
        text = str(value)[:_TEXT_CHARACTERS]
        if reply.status in _AS_IT_IS:
            return RequestError(Status(reply.status), text)
        self.lost_total += 1
        return RequestError(Status.RESPONDER_GONE, f"{there}: it cannot be reached now ({text})")

    def _gone(self, handler: Handler) -> None:
        if handler.id in self._joined:
            self._joined.discard(handler.id)
            self._part(handler.id)

    def _part(self, client: int) -> None:
        """Report a disconnected client to the other hub; `tick` repeats a lost report."""
        self._parted.discard(client)

        def settle(outcome: Any) -> None:
            if isinstance(outcome, RequestError) and outcome.status in _LOST:
                self._parted.add(client)

        try:
            self._send(Question(self._core.mesh.hub, self._run, client, GONE), settle)
        except RequestError:  # the other hub notices, or `tick` reports it later
            self._parted.add(client)


def _wait_ms(value: Any) -> int:
    """Return the wait of a `take`, ms; the other hub checks it."""
    wait_ms = value.get("wait_ms", 0) if isinstance(value, dict) else 0
    return min(wait_ms, ANSWER_MS * 2) if isinstance(wait_ms, int) and wait_ms > 0 else 0


def _refuse(_link: Handler, _value: bytes, answer: Answer) -> None:
    answer(Status.FAILED, msgspec.msgpack.encode("that hub has no journal of its own, and so no consumers"))
