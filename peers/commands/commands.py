"""`Commands` carry out and answer the requests of one far side to the hub, in any protocol.

| event | answer |
|---|---|
| `Publication`, `Confirmable` | `confirm`; with `confirm` in it `recorded`, `unrecorded`, in the messages' order |
| `SubscriptionChange`, `RuleChange` | `confirm` with the journal's position |
| `ServiceChange`, `NameClaim`, `NameRelease` | `confirm`; after a claim later `tell_name` |
| `Request`, `Reply` | by the core, through the handler |
| `Fetch`, `Stage`, `Commit` | `send_records`, `confirm`, in any order |

A request that the core rejects changes nothing, and is answered by `reject` with its number. A change of many prefixes
or rules goes on in steps, and no other request of the far side is carried out in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from hub.errors import CloseCode, InvalidNameError, InvalidTopicError, RejectedError
from hub.handlers.handler import Handler
from hub.labels.rules import check_rule
from hub.messages.batch import Batch
from hub.messages.frame import FLAG_BATCH, HEADER, HEADER_BYTES, encode_frame
from hub.messages.request_frame import Item, Reply, Request
from hub.names.claim import Change, Standing
from hub.policy.policy import Action, Rights
from hub.quotas import Resource
from hub.routing.routes import Route
from peers.journal.forms import Order, granted
from peers.journal.remote_journals import Cancel, nothing
from peers.journal.staging import Committed
from peers.journal.view import LARGE_FACTOR
from peers.server.server import Server, connection_of
from peers.wire.control import NameClaim, NameRelease, RuleChange
from peers.wire.events import Confirmable, ServiceChange, SubscriptionChange
from peers.wire.records import Commit, Fetch, Stage

STEPS_OF_CLIENT = 1_200
"""Most steps that one event of a client does at once: enough for as many prefixes as a client may have by default, and
their checks. So the confirmation, with the journal's position, stands before the first message of the subscription."""

_CHECKED_PER_STEP = 2  # rules that are checked in one step

_ITEMS_PER_EVENT = 64  # requests or replies of one frame that cost as much as another frame: each may go another way

FETCHES_LIMIT = 256  # most waiting FETCHes of one connection: one for each of its streams, and some readers
FETCH_LIMIT_BYTES = 4 * 1024 * 1024  # most bytes of records for one FETCH; larger answers are no quicker

_ANSWERS_BYTES = 16 * 1024 * 1024  # shared by the FETCHes of a connection; whole blocks may be `LARGE_FACTOR` times it

_HEAD_BYTES = 1024  # room for the head of RECORDS; `LARGE_FACTOR` leaves room for the lengths of blocks
_LENGTH_BYTES = 4  # the length field in front of the routing key; see `hub.messages.frame`

INVALID = (RejectedError, InvalidTopicError, InvalidNameError)


def rejection(error: Exception) -> RejectedError:
    return error if isinstance(error, RejectedError) else RejectedError(CloseCode.BAD_DATA, str(error))


class Replies(Protocol):
    """Answers requests in one protocol, in the output of its session, so that answers precede later messages."""

    @property
    def frame_limit_bytes(self) -> int: ...

    def confirm(
        self, request: int, offset: int | None = None, *, text: str = "", messages: int = 0, again: bool = False
    ) -> None:
        """A request was carried out. Request 0 is not answered.

        Args:
            offset: The journal's position when a subscription began, or the first offset of a COMMIT.
            text: "queued" for a claim to a name with another owner.
            messages: Messages of a COMMIT.
            again: Whether this COMMIT was carried out before.
        """

    def reject(self, error: RejectedError, request: int = 0) -> None: ...

    def reject_messages(self, error: RejectedError, count: int, request: int = 0) -> None:
        """`count` messages, requests or replies were rejected; those of one read may be summed up."""

    def recorded(self, request: int, offset: int, messages: int) -> None:
        """Messages are in the journal, the first of them at `offset`."""

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:
        """Messages with CONFIRM are not in the journal."""

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        """Pass on the frame that a reader process made for a FETCH."""

    def tell_name(self, change: Change) -> None:
        """The claim to a service name has changed."""

    def put_off(self, rest: Any) -> None:
        """Bring `rest` to the commands in a later turn, before anything else of the far side."""

    def write_later(self) -> None:
        """Write answers soon; only for answers outside of a read."""


class Publication(NamedTuple):
    """Messages to publish, as one MESSAGES frame."""

    frame: bytes
    messages: int
    request: int = 0  # the publisher's number for the frame, or 0
    confirm: bool = False  # whether the publisher asks for the offset in the journal

    @property
    def routing_key(self) -> bytes:
        return self.frame[_LENGTH_BYTES : HEADER_BYTES + HEADER.unpack_from(self.frame)[3]]

    @property
    def batch(self) -> Batch:
        return Batch(self.frame, self.messages)


def publish(server: Server, handler: Handler, publication: Publication) -> None:
    server.core.publish(handler, route_of(server, handler, publication), publication.batch)


def route_of(server: Server, handler: Handler, publication: Publication) -> Route:
    """Return the route of messages of a client.

    Raises:
        RejectedError: The messages are too large, or the client may not publish them.
    """
    size_bytes, limit_bytes = HEADER.unpack_from(publication.frame)[0], server.settings.limits.frame_bytes
    if size_bytes > limit_bytes:
        raise RejectedError(CloseCode.TOO_BIG, f"publish: {size_bytes} bytes as msgpack, the limit is {limit_bytes}")
    route = server.core.routes.of(publication.routing_key)
    server.core.authority.check(handler, route, publication.batch)
    return route


_InSteps = SubscriptionChange | ServiceChange | RuleChange


class Rest(NamedTuple):
    """A change that was begun and is to be finished before any other request of the far side."""

    steps: Iterator[None]  # the rest of the work: each step is done by advancing it
    change: _InSteps  # the change, to be confirmed when the last step is done

    @property
    def request(self) -> int:
        return self.change.request


_Change = _InSteps | NameClaim | NameRelease | Fetch | Stage | Commit | Rest

Verb = Publication | Confirmable | Request | Reply | _Change

CHANGES: frozenset[type] = frozenset({SubscriptionChange, ServiceChange, RuleChange, NameClaim, NameRelease, Rest})
"""The commands that change the state of the hub for a client: all connections share a budget for them."""

_ACTIONS: dict[type, str] = {
    Publication: "publish",
    SubscriptionChange: "subscribe",
    RuleChange: "subscribe",
    ServiceChange: "serve",
    NameClaim: "claim",
    NameRelease: "claim",
    Fetch: "journal",
    Order: "journal",
    Stage: "publish",
    Commit: "publish",
}
"""The audit's name for each command that may be rejected."""


class _Confirmation:
    """The confirmation of one frame."""

    __slots__ = ("messages", "outcome", "request")

    def __init__(self, request: int, messages: int) -> None:
        self.request = request
        self.messages = messages
        self.outcome: int | RejectedError | None = None  # offset, or why nothing was recorded; None: undecided


class _Fetch(NamedTuple):
    """A waiting FETCH."""

    cancel: Cancel
    is_here: bool  # whether it is for the journal of this hub, and ends at once when cancelled


class Commands:
    """Carries out the requests of one far side, whose handler is attached to the core."""

    __slots__ = ("_changes", "_confirmations", "_far", "_fetches", "_handler", "_server")

    def __init__(self, server: Server, handler: Handler, far: Replies) -> None:
        self._server = server
        self._handler = handler
        self._far = far
        # The next three are made when they are first needed, as most far sides never need them.
        self._changes: dict[str, Change] | None = None  # last changes of names, while the client does not read
        self._fetches: dict[int, _Fetch] | None = None  # waiting FETCHes by request number
        self._confirmations: deque[_Confirmation] | None = None  # in the messages' order; the first is undecided
        server.core.authority.on_revoked[handler] = self._revoke

    def act(self, verb: Verb) -> int:
        """Carry out a request; return how much work that was, beyond the frame's own share of a turn."""
        if self._handler.closed:  # the far side was lost while the rest of a read waited for its turn
            return 0
        match verb:
            case Request() | Reply():
                return self._pass_on(verb)
            case Publication():
                return self._publish(verb)
            case Confirmable():
                kind, flags, key, body = verb.frame  # the session has cleared CONFIRM
                raw = encode_frame(kind, body, key=key, flags=flags)
                return self._publish(Publication(raw, verb.frame.messages, confirm=True))
            case _:
                return self._change(verb)

    def write_more(self) -> None:
        changes, self._changes = self._changes, None
        if changes:
            for change in changes.values():
                self._far.tell_name(change)
            self._far.write_later()

    def close(self) -> None:
        """The far side has gone: cancel its waiting requests."""
        for fetch in (self._fetches or {}).values():
            fetch.cancel()
        self._fetches = self._confirmations = None

    def _pass_on(self, item: Item) -> int:
        server, handler, far = self._server, self._handler, self._far
        if isinstance(item, Request):
            refused = server.core.requests.ask(handler, item, server.now_ms())
            connection_of(handler).wait_for_reader()  # its answers may not be dropped
        else:
            refused = server.core.requests.answer(handler, item)
        # A peer hub gets no error: its items may come too late without a fault. A client does not get the number:
        # another of its requests that is still pending may have the same.
        if refused is not None and not handler.is_link:
            far.reject_messages(RejectedError(refused.code, refused.text), refused.requests)
        return item.requests // _ITEMS_PER_EVENT if item.flags & FLAG_BATCH else 0

    def _change(self, change: _Change) -> int:
        try:
            return self._do(change)
        except INVALID as error:
            rejected = rejection(error)
            self._audit(change, rejected)
            self._far.reject(rejected, change.request)
            return 0

    def _audit(self, what: _Change | Publication, error: RejectedError, count: int = 1) -> None:
        if error.code == CloseCode.NOT_ALLOWED:
            action = _ACTIONS[type(what.change if isinstance(what, Rest) else what)]
            self._server.audit.refused(self._handler, action, error, count)

    def _do(self, change: _Change) -> int:
        server, handler = self._server, self._handler
        core = server.core
        match change:
            case SubscriptionChange():
                subscribe = core.subscribing if change.subscribe else core.unsubscribing
                return self._step(subscribe(handler, change.prefixes), change)
            case RuleChange():
                return self._step(self._change_rules(change), change)
            case ServiceChange():
                serve = core.requests.serving if change.serve else core.requests.unserving
                return self._step(serve(handler, change.prefixes), change)
            case Rest():
                return self._step(change.steps, change.change)
            case NameClaim():
                standing = core.names.claim(handler, change.wish, server.wall_us(), self._tell_name)
                self._confirm_name(change.request, change.wish.name, "queued" if standing is Standing.QUEUED else "")
            case NameRelease():
                core.names.release(handler, change.name)
                self._confirm_name(change.request, change.name)
            case Fetch():
                self._fetch(change)
            case Stage():
                server.journal.stage(handler, change, lambda error: self._answer(change.request, error))
            case Commit():
                server.journal.commit(handler, change, lambda outcome: self._answer(change.request, outcome))
        return 0

    def _step(self, steps: Iterator[None], change: _InSteps) -> int:
        """Do some of the steps, and return how many. If that was all, confirm the change, else put the rest off."""
        done = sum(1 for _ in islice(steps, STEPS_OF_CLIENT))
        if done == STEPS_OF_CLIENT:
            self._far.put_off(Rest(steps, change))
        elif change.request:
            # The position is read in the turn in which the last prefix was added, so that all records from there on
            # are delivered as well.
            is_subscription = not isinstance(change, ServiceChange) and change.subscribe
            recorder = self._server.journal.recorder
            self._far.confirm(change.request, recorder.position() if is_subscription and recorder is not None else None)
        return done

    def _change_rules(self, change: RuleChange) -> Iterator[None]:
        """Add or remove rules, one step each time that the iterator is advanced."""
        rules = []
        for fields in change.rules:
            rules.append(check_rule(*fields))
            if not len(rules) % _CHECKED_PER_STEP:
                yield
        core = self._server.core
        if change.subscribe:
            core.subscribe_rules(self._handler, rules)
        else:
            core.rules.unsubscribe(self._handler, rules)
        for _ in rules:
            yield

    def _revoke(self, error: RejectedError) -> None:
        self._server.audit.refused(self._handler, "hold", error)
        self._reject_later(error, 0)

    def _reject_later(self, error: RejectedError, request: int) -> None:
        self._far.reject(error, request)
        self._far.write_later()

    # Service names.

    def _confirm_name(self, request: int, name: str, text: str = "") -> None:
        if self._changes is not None:
            self._changes.pop(name, None)  # the answer is newer
        self._far.confirm(request, text=text)

    def _tell_name(self, change: Change) -> None:
        if self._handler.writable:
            self._far.tell_name(change)
            self._far.write_later()
        else:
            if self._changes is None:
                self._changes = {}
            self._changes[change.name] = change

    # Publishing.

    def _publish(self, publication: Publication) -> int:
        server, request, messages = self._server, publication.request, publication.messages
        try:
            route = route_of(server, self._handler, publication)
        except RejectedError as error:
            self._audit(publication, error, messages)
            if publication.confirm:
                self.refuse_confirmable(error, request, messages)
            else:
                server.rejected_messages += messages
                self._far.reject_messages(error, messages, request)
            return 0
        route_batch = partial(server.core.publish, self._handler, route)
        if publication.confirm:
            confirmation = self._expect(request, messages)
            settle = partial(self._settle, confirmation)
            server.journal.confirm(route, publication.batch, route_batch, settle)
        else:
            route_batch(publication.batch)
            self._far.confirm(request)
        return 0

    def refuse_confirmable(self, error: RejectedError, request: int, messages: int) -> None:
        """Reject messages with CONFIRM, after all earlier confirmations."""
        self._server.rejected_messages += messages
        self._settle(self._expect(request, messages), error)

    def _expect(self, request: int, messages: int) -> _Confirmation:
        confirmation = _Confirmation(request, messages)
        if self._confirmations is None:
            self._confirmations = deque()
        self._confirmations.append(confirmation)
        return confirmation

    def _settle(self, confirmation: _Confirmation, outcome: int | RejectedError) -> None:
        """Note an outcome, and send all confirmations in front of the first undecided one."""
        confirmation.outcome = outcome
        waiting, far = self._confirmations, self._far
        while waiting and (known := waiting[0].outcome) is not None:
            settled = waiting.popleft()
            if isinstance(known, RejectedError):
                far.unrecorded(known, settled.request, settled.messages)
            else:
                far.recorded(settled.request, known, settled.messages)
        far.write_later()

    def _answer(self, request: int, outcome: Committed | RejectedError | None) -> None:
        if isinstance(outcome, RejectedError):
            self._reject_later(outcome, request)
            return
        if outcome is None:
            self._far.confirm(request)
        else:
            first, messages, again = outcome
            self._far.confirm(request, first, messages=messages, again=again)
        self._far.write_later()

    # Reading the journal.

    def _fetch(self, fetch: Fetch) -> None:
        """Have a reader process read the journal. A FETCH replaces a waiting one with its number.

        Raises:
            RejectedError: A FETCH with this number is being read, too many FETCHes wait, or the client may not read it.
        """
        server, request = self._server, fetch.request
        fetches = self._fetches = {} if self._fetches is None else self._fetches
        waiting = fetches.get(request)
        if waiting is not None and waiting.is_here and waiting.cancel():
            del fetches[request]  # it waited for a commit, and its number is used again
        if request in fetches or len(fetches) >= FETCHES_LIMIT:
            text = f"this FETCH, or {FETCHES_LIMIT} of them, which is the limit, wait for an answer already"
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, text)
        room = _ANSWERS_BYTES // (len(fetches) + 1)
        most = min(FETCH_LIMIT_BYTES, room, self._far.frame_limit_bytes // (LARGE_FACTOR + 2) - _HEAD_BYTES)
        rights, share = self._handler.rights, self._handler.share
        order = msgspec.structs.replace(fetch, bytes=min(fetch.bytes, max(1, most)))
        if len(fetch.prefixes) <= server.settings.limits.prefixes_per_client:  # else the journal refuses them
            order = granted(order, rights, Action.JOURNAL, narrows=self._handler.narrows)
        fetches[request] = _Fetch(nothing, is_here=False)  # the journal may answer within the call
        journal = server.remote_journals if fetch.hub else server.journal
        usage = None if share is None else share[Resource.JOURNAL_READS]
        cancel = journal.fetch(order, lambda outcome: self._fetched(outcome, request, rights), usage)
        if request in fetches:
            fetches[request] = _Fetch(cancel, is_here=bool(server.journal.id) and not fetch.hub)

    def _fetched(self, outcome: bytes | bytearray | RejectedError, request: int, rights: Rights | None) -> None:
        """Send the answer; `rights` are those at the time of the FETCH, up to a minute ago."""
        handler, limit = self._handler, self._far.frame_limit_bytes
        if self._fetches is not None:
            self._fetches.pop(request, None)
        if handler.rights is not rights:
            outcome = RejectedError(CloseCode.TRY_AGAIN_LATER, "your permissions have changed: try again")
        if isinstance(outcome, RejectedError):
            self._reject_later(outcome, request)
        elif (share := handler.share) is not None and not handler.has_room(len(outcome)):
            self._reject_later(share[Resource.QUEUED_BYTES].rejection(len(outcome)), request)
        elif len(outcome) - HEADER_BYTES > limit:
            text = (
                f"RECORDS of {len(outcome)} bytes with one record, the other side accepts {limit}: take larger frames"
            )
            self._reject_later(RejectedError(CloseCode.TOO_BIG, text), request)
        else:
            self._far.send_records(outcome, request)
            self._far.write_later()
