"""`Commands` carry out and answer everything that one far side may ask of the hub, whatever protocol it speaks.

| event | file | answer |
|---|---|---|
| `Publication`, `Confirmable` | `publish` | `confirm`; with `confirm` in it `recorded`, `unrecorded` |
| `SubscriptionChange` | here | `confirm` with the journal's position |
| `RuleChange` | `rules` | the same |
| `ServiceChange` | here | `confirm` |
| `Request`, `Reply` | here | by the core, through the handler |
| `NameClaim`, `NameRelease` | `names` | `confirm`; later `tell_name` |
| `Fetch`, `Stage`, `Commit` | `journal` | `send_records`; `confirm` |

Owner: one conversation, with a client or with a peer hub, from the moment in which its handler is attached. Invariants:
a request that the core refuses changes nothing, and is answered by `reject` with its number; a change of many prefixes
or rules goes on in steps, and nothing else that the far side asks is done in between. All of it is synchronous.

Not here: who may ask what (the session's table), the wording of the answers (`Replies`), runs of messages (the
connection hands them to the core itself).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.handlers.handler import Handler
from hub.labels.rules import check_rule
from hub.messages.frame import FLAG_BATCH
from hub.messages.request_frame import Item, Reply, Request
from hub.names.claim import Change, Standing
from peers.commands.journal import JournalRequests
from peers.commands.publish import Publication, publish, to_be_confirmed, way
from peers.commands.replies import INVALID, Replies, rejection
from peers.journal.forms import Order
from peers.server.server import Server
from peers.wire.control import RuleChange
from peers.wire.events import Confirmable, ServiceChange, SubscriptionChange
from peers.wire.names import NameClaim, NameRelease
from peers.wire.records import Commit, Fetch, Stage

__all__ = [
    "CHANGES",
    "STEPS_OF_CLIENT",
    "Commands",
    "NameClaims",
    "Rest",
    "Verb",
    "change_rules",
]


STEPS_OF_CLIENT = 1_200
"""Most steps that one event of a client does at once: enough for as many prefixes as a client may have by default, and
their checks. So the confirmation, with the journal's position, stands before the first message of the subscription."""

_ITEMS_PER_EVENT = 64
"""How many requests or replies of one frame count as the work of another frame: each may be routed differently."""

_InSteps = SubscriptionChange | ServiceChange | RuleChange


class Rest(NamedTuple):
    """A change that was begun and is to be finished before anything else that the far side asks for."""

    steps: Iterator[None]
    """What is left to do: each step is done by advancing it."""
    change: _InSteps
    """What the far side asked for, to be confirmed when the last step is done."""

    @property
    def request(self) -> int:
        """The number of the request that asked for the change."""
        return self.change.request


_Change = _InSteps | NameClaim | NameRelease | Fetch | Stage | Commit

Verb = Publication | Confirmable | Request | Reply | Rest | _Change

CHANGES: frozenset[type] = frozenset({SubscriptionChange, ServiceChange, RuleChange, NameClaim, NameRelease, Rest})
"""The commands that change what the hub knows of a client: all connections share a budget for them."""


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
"""What the audit calls each verb that may be refused."""


class Commands:
    """Carries out what one far side asks.

    Args:
        node: The hub.
        handler: The handler of the far side, which is attached to the core.
        far: The far side, which gets the answers.
    """

    __slots__ = ("_far", "_handler", "_journal", "_names", "_server")

    _journal: JournalRequests | None
    """None until the far side asks something of the journal for the first time, as most never do."""

    _names: NameClaims | None
    """None until the far side claims or releases a name for the first time, as most never do."""

    def __init__(self, server: Server, handler: Handler, far: Replies) -> None:
        self._server = server
        self._handler = handler
        self._far = far
        self._journal = None
        self._names = None
        server.core.authority.on_revoked[handler] = self._revoke

    def act(self, verb: Verb) -> int:
        """Do what the far side asks for; return how much work that was, beyond the frame's own share of a turn."""
        if self._handler.closed:  # the far side was lost while the rest of a read waited for its turn
            return 0
        match verb:
            case Request() | Reply():
                return self._pass_on(verb)
            case Publication():
                return self._publish(verb)
            case Confirmable():
                return self._publish(to_be_confirmed(verb.frame))
            case _:
                return self._change(verb)

    def write_more(self) -> None:
        """Tell the far side, which reads again, what was kept for it."""
        if self._names is not None:
            self._names.write_more()

    def close(self) -> None:
        """Cancel what the far side waits for: it has gone, and nobody would read the answers."""
        if self._journal is not None:
            self._journal.close()

    @property
    def journal(self) -> JournalRequests:
        """The far side's journal requests, made when they are first needed."""
        if self._journal is None:
            self._journal = JournalRequests(self._server, self._handler, self._far)
        return self._journal

    @property
    def _claims(self) -> NameClaims:
        if self._names is None:
            self._names = NameClaims(self._server, self._handler, self._far)
        return self._names

    def _pass_on(self, item: Item) -> int:
        """Pass a request or a reply to the core."""
        server, handler, far = self._server, self._handler, self._far
        if isinstance(item, Request):
            refused = server.core.requests.ask(handler, item, server.now_ms())
            far.expect_answers()
        else:
            refused = server.core.requests.answer(handler, item)
        # A peer hub is told nothing: what it sends may come too late without anybody's fault. A client is not told the
        # number: another of its requests that is still pending may have the same.
        if refused is not None and not handler.is_link:
            far.refuse(RejectedError(refused.code, refused.text), refused.requests)
        return item.requests // _ITEMS_PER_EVENT if item.flags & FLAG_BATCH else 0

    def _change(self, change: _Change | Rest) -> int:
        """Do what is answered with the request's number: by a confirmation, or by an error."""
        try:
            return self._do(change)
        except INVALID as error:
            told = rejection(error)
            self._audit(change, told)
            self._far.reject(told, change.request)
            return 0

    def _audit(self, what: _Change | Publication | Rest, error: RejectedError, count: int = 1) -> None:
        """Tell the audit of what the far side may not do."""
        if error.code == CloseCode.NOT_ALLOWED:
            action = _ACTIONS[type(what.change if isinstance(what, Rest) else what)]
            self._server.audit.refused(self._handler, action, error, count)

    def _do(self, change: _Change | Rest) -> int:
        handler, core = self._handler, self._server.core
        match change:
            case SubscriptionChange():
                subscribe = core.subscribing if change.subscribe else core.unsubscribing
                return self._step(subscribe(handler, change.prefixes), change)
            case RuleChange():
                return self._step(change_rules(self._server, handler, change), change)
            case ServiceChange():
                serve = core.requests.serving if change.serve else core.requests.unserving
                return self._step(serve(handler, change.prefixes), change)
            case Rest():
                return self._step(change.steps, change.change)
            case NameClaim():
                self._claims.claim(change)
            case NameRelease():
                self._claims.release(change)
            case Fetch():
                self.journal.fetch(change)
            case Stage():
                self.journal.stage(change)
            case Commit():
                self.journal.commit(change)
        return 0

    def _step(self, steps: Iterator[None], change: _InSteps) -> int:
        """Do some of the steps, and return how many. If that was all, confirm the change, else put the rest off."""
        done = sum(1 for _ in islice(steps, STEPS_OF_CLIENT))
        if done == STEPS_OF_CLIENT:
            self._far.put_off(Rest(steps, change))
        elif change.request:
            self._confirm(change)
        return done

    def _confirm(self, change: _InSteps) -> None:
        """Confirm a change that is done; the answer to a subscription says where the journal stands.

        The position is read in the same turn in which the last prefix was added, so everything that is recorded from
        there on is delivered as well.
        """
        is_subscription = not isinstance(change, ServiceChange) and change.subscribe
        self._far.confirm(change.request, self._server.journal.position() if is_subscription else None)

    def _revoke(self, error: RejectedError) -> None:
        """Tell the far side what it held and may no longer hold, outside of any request."""
        self._server.audit.refused(self._handler, "hold", error)
        self._far.reject(error)
        self._far.write_later()

    def _publish(self, publication: Publication) -> int:
        request, messages = publication.request, publication.messages
        try:
            if publication.confirm:
                self.journal.publish(publication, way(self._server, self._handler, publication))
            else:
                publish(self._server, self._handler, publication)
        except RejectedError as error:
            self._audit(publication, error, messages)
            if publication.confirm:
                self.journal.refuse(error, request, messages)
            else:
                self._server.rejected_messages += messages
                self._far.refuse(error, messages, request)
            return 0
        if not publication.confirm:
            self._far.confirm(request)
        return 0


# Subscribing and unsubscribing by rule: a rule names labels, a prefix and a sender.


_CHECKED_PER_STEP = 2
"""How many rules are checked in one step."""


def change_rules(server: Server, handler: Handler, change: RuleChange) -> Iterator[None]:
    """Add or remove rules. The iterator does one step each time that it is advanced.

    Raises:
        InvalidNameError, InvalidTopicError: A label, sender or prefix in a rule is invalid.
        RejectedError: The far side would have too many rules.
    """
    rules = []
    for fields in change.rules:
        rules.append(check_rule(*fields))
        if not len(rules) % _CHECKED_PER_STEP:
            yield
    if change.subscribe:
        server.core.subscribe_rules(handler, rules)
    else:
        server.core.rules.unsubscribe(handler, rules)
    for _ in rules:
        yield


# Service names.


class NameClaims:
    """The claims of one client.

    Args:
        node: The hub.
        handler: The handler of the client.
        far: The client, which is told of changes.
    """

    __slots__ = ("_changes", "_far", "_handler", "_server")

    _changes: dict[str, Change]
    """The last change of each name that the client was not told of, because it did not read. An entry is made by
    `_tell`, and removed by `write_more` when the client reads again, or by an answer about the same name."""

    def __init__(self, server: Server, handler: Handler, far: Replies) -> None:
        self._server = server
        self._handler = handler
        self._far = far
        self._changes = {}

    def claim(self, claim: NameClaim) -> None:
        """Claim a name.

        Raises:
            InvalidNameError: The text is no service name.
            RejectedError: Somebody else owns the name and the client would not wait, or there would be too many claims.
        """
        wish = claim.wish
        standing = self._server.core.names.claim(self._handler, wish, self._server.wall_us(), self._tell)
        self._confirm(claim.request, wish.name, "queued" if standing is Standing.QUEUED else "")

    def release(self, release: NameRelease) -> None:
        """Give up a name that the client owns, or stop waiting for one.

        Raises:
            RejectedError: The client has not claimed it.
        """
        self._server.core.names.release(self._handler, release.name)
        self._confirm(release.request, release.name)

    def _confirm(self, request: int, name: str, text: str = "") -> None:
        self._changes.pop(name, None)  # the answer is newer than what was kept
        self._far.confirm(request, text=text)

    def _tell(self, change: Change) -> None:
        if self._handler.writable:
            self._far.tell_name(change)
            self._far.write_later()
        else:
            self._changes[change.name] = change

    def write_more(self) -> None:
        """Tell the client, which reads again, what was kept for it."""
        changes, self._changes = self._changes, {}
        for change in changes.values():
            self._far.tell_name(change)
        if changes:
            self._far.write_later()
