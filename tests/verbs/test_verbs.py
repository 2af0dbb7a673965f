"""What a far side may ask, whatever it speaks: it is done, or refused with the request's number."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hub.batch import Batch
from hub.delivery import Role
from hub.errors import CloseCode, RejectedError
from hub.frame import iterate_frames
from hub.limits import CoreLimits, HandlerLimits
from hub.names.claim import Change, Wish
from hub.request_frame import Item, Reply, Request, Status
from hub.settings.sections import Limits
from peers.journal.recording import NoJournal
from peers.node.audit import Audit
from peers.verbs.publish import Publication, to_be_confirmed
from peers.verbs.verbs import STEPS_OF_CLIENT, Verb, Verbs
from peers.wire.control import RuleChange
from peers.wire.events import Confirmable, ServiceChange, SubscriptionChange
from peers.wire.names import NameClaim, NameRelease
from peers.wire.records import Commit, Fetch, Stage
from tests.hub.fakes import Turn
from tests.hub.rights.hall import policy_of


class Far:
    def __init__(self) -> None:
        self.frame_limit_bytes = 1 << 20
        self.told: list[tuple[Any, ...]] = []
        self.spoken = 0
        self.rest: Any = None

    def confirm(self, request: int, offset: int | None = None, **more: Any) -> None:
        self.told.append(("confirmed", request, offset, *(value for value in more.values() if value)))

    def reject(self, error: RejectedError, request: int = 0) -> None:
        self.told.append(("error", request, error.code, error.text))

    def refuse(self, error: RejectedError, count: int, request: int = 0) -> None:
        self.told.append(("refused", request, error.code, count))

    def recorded(self, request: int, offset: int, messages: int) -> None:
        self.told.append(("recorded", request, offset, messages))

    def unrecorded(self, error: RejectedError, request: int, messages: int) -> None:
        self.told.append(("unrecorded", request, error.code, messages))

    def send_records(self, answer: bytes | bytearray, request: int) -> None:
        self.told.append(("records", request, bytes(answer)))

    def tell_name(self, change: Change) -> None:
        self.told.append(("name", change.name, change.standing.value))

    def expect_answers(self) -> None:
        """Be held back."""

    def put_off(self, rest: object) -> None:
        assert self.rest is None
        self.rest = rest

    def write_later(self) -> None:
        self.spoken += 1


class Desk:
    def __init__(self, limits: CoreLimits = CoreLimits(), role: Role = Role.CLIENT) -> None:  # noqa: B008 -- frozen
        self.turn = Turn(limits)
        self.handler, self.outlet = self.turn.join(role=role)
        self.handler.poster = self
        self.far = Far()
        self.node = SimpleNamespace(
            core=self.turn.core,
            journal=NoJournal(),
            rejected_messages=0,
            settings=SimpleNamespace(limits=Limits()),
            now_ms=lambda: 0,
            wall_us=lambda: 1,
            audit=Audit(self.turn.core.own_events.announce, lambda: 1.0),
        )
        self.verbs = Verbs(self.node, self.handler, self.far)  # type: ignore[arg-type]

    def post(self, items: list[Item]) -> None:
        """Be sent requests and replies."""

    def ask(self, verb: Verb) -> list[tuple[Any, ...]]:
        self.verbs.act(verb)
        while self.far.rest is not None:
            rest, self.far.rest = self.far.rest, None
            self.verbs.act(rest)
        told, self.far.told = self.far.told, []
        return told


@pytest.fixture
def desk() -> Desk:
    return Desk()


def publication(topic: str, value: Any = 1, request: int = 0, *, confirm: bool = False) -> Publication:
    (frame,) = iterate_frames(Batch.of(topic, (value,)).frames)
    return to_be_confirmed(frame)._replace(request=request, confirm=confirm)


@pytest.mark.parametrize(
    "verb",
    [
        SubscriptionChange(subscribe=True, prefixes=["\n"], request=7),
        RuleChange(True, [((), "/a", "")], 7),
        RuleChange(True, [(("a",), "\n", "")], 7),
        RuleChange(True, [(("a",), "", "x")], 7),
        ServiceChange(serve=True, prefixes=["\n"], request=7),
        NameClaim(7, Wish("no name")),
    ],
)
def test_what_cannot_be(desk: Desk, verb: Verb) -> None:
    """A prefix, rule or name that is none is bad data, with the request's number, for each verb alike."""
    (told,) = desk.ask(verb)
    assert told[:3] == ("error", 7, CloseCode.BAD_DATA)


@pytest.mark.parametrize(
    "verb",
    [
        SubscriptionChange(subscribe=True, prefixes=[f"/{number}" for number in range(1001)], request=7),
        ServiceChange(serve=True, prefixes=["$hub/x"], request=7),
        NameRelease(7, "a.b"),
        Fetch(7),
        Stage(7, "t", 0, b""),
        Commit(7, "t"),
    ],
)
def test_what_may_not_be(desk: Desk, verb: Verb) -> None:
    (told,) = desk.ask(verb)
    assert told[:2] == ("error", 7)


def test_subscriptions(desk: Desk) -> None:
    assert desk.verbs.act(SubscriptionChange(subscribe=True, prefixes=["/a", "/b"], request=7)) == 2
    assert desk.far.told == [("confirmed", 7, None)]
    assert set(desk.handler.prefixes) == {"/a", "/b"}


MANY = [f"/{number}" for number in range(2 * STEPS_OF_CLIENT + 1)]
ROOM = CoreLimits(client=HandlerLimits(len(MANY), len(MANY), len(MANY)))


@pytest.mark.parametrize(
    ("more", "less"),
    [
        (SubscriptionChange(True, MANY, 7), SubscriptionChange(False, MANY, 8)),
        (ServiceChange(True, MANY, 7), ServiceChange(False, MANY, 8)),
        (
            RuleChange(True, [(("a",), prefix, "") for prefix in MANY], 7),
            RuleChange(False, [(("a",), prefix, "") for prefix in MANY], 8),
        ),
    ],
)
def test_many_at_once(more: Verb, less: Verb) -> None:
    """Are more than one turn's work: no step does more than its share, and the last one confirms."""
    desk = Desk(ROOM)
    for verb, request in ((more, 7), (less, 8)):
        costs = [desk.verbs.act(verb)]
        while desk.far.rest is not None:
            assert desk.far.told == []
            rest, desk.far.rest = desk.far.rest, None
            costs.append(desk.verbs.act(rest))
        assert len(costs) >= 3
        assert max(costs) == STEPS_OF_CLIENT
        assert desk.far.told == [("confirmed", request, None)]
        desk.far.told.clear()


def test_as_many_as_a_client_may_have(desk: Desk) -> None:
    desk.verbs.act(SubscriptionChange(subscribe=True, prefixes=MANY[:1000], request=7))
    assert desk.far.told == [("confirmed", 7, None)]


def test_whoever_leaves_in_between() -> None:
    desk = Desk(ROOM)
    desk.verbs.act(SubscriptionChange(subscribe=True, prefixes=MANY, request=7))
    desk.turn.core.detach(desk.handler, "lost")
    assert desk.verbs.act(desk.far.rest) == 0
    assert desk.far.told == []


def test_publications(desk: Desk) -> None:
    _, reader = desk.turn.join("/a")
    assert desk.ask(publication("/a", 5, 3)) == [("confirmed", 3, None)]
    desk.turn.core.flush()
    assert reader.values == [5]
    assert desk.ask(publication("$hub/x", request=4)) == [("refused", 4, CloseCode.NOT_ALLOWED, 1)]
    assert desk.node.rejected_messages == 1


def test_publications_that_are_too_large(desk: Desk) -> None:
    limit = 100
    desk.node.settings.limits = Limits(frame_bytes=limit)
    assert desk.ask(publication("/a", b"x" * (limit - 2), 3)) == [("confirmed", 3, None)]
    assert desk.ask(publication("/a", b"x" * (limit - 1), 4)) == [("refused", 4, CloseCode.TOO_BIG, 1)]


def test_confirmations_without_a_journal(desk: Desk) -> None:
    assert desk.ask(publication("/a", request=3, confirm=True)) == [("unrecorded", 3, CloseCode.NOT_ALLOWED, 1)]
    (frame,) = iterate_frames(Batch.of("/a", (1, 2)).frames)
    assert desk.ask(Confirmable(frame)) == [("unrecorded", 0, CloseCode.NOT_ALLOWED, 2)]
    assert desk.far.spoken == 2


def test_replies_that_nobody_waits_for(desk: Desk) -> None:
    assert desk.ask(Reply(9, Status.OK, b"\x01")) == [("refused", 0, CloseCode.BAD_DATA, 1)]


def test_names_that_change_while_the_client_does_not_read(desk: Desk) -> None:
    assert desk.ask(NameClaim(1, Wish("a.b"))) == [("confirmed", 1, None)]
    other, _ = desk.turn.join()
    far = Far()
    others = Verbs(desk.node, other, far)  # type: ignore[arg-type]
    others.act(NameClaim(2, Wish("a.b", queue=True)))
    assert far.told == [("confirmed", 2, None, "queued")]
    other.pause()
    assert desk.ask(NameRelease(3, "a.b")) == [("confirmed", 3, None)]
    assert far.told[1:] == []
    other.resume()
    others.write_more()
    assert far.told[1:] == [("name", "a.b", "owned")]


def test_whoever_is_lost(desk: Desk) -> None:
    desk.turn.core.detach(desk.handler, "lost")
    assert desk.ask(SubscriptionChange(subscribe=True, prefixes=["/a"], request=1)) == []
    assert desk.ask(Request(b"/a", 1, 0, b"\x01")) == []


# Rights.

POLICY = """
[roles.some]
publish = ["/a"]
subscribe = ["/a", "/{user}"]
request = ["/a"]
serve = ["/a"]
claim = ["org.a"]
journal = ["/a"]
link = { bring = ["/a"], take = ["/a"] }
[roles.all]
publish = ["*"]
subscribe = ["*"]
serve = ["*"]
claim = ["*"]
[users]
alice = ["some"]
"""


def restricted(role: str = "", of: Role = Role.CLIENT) -> Desk:
    desk = Desk(role=of)
    policy = policy_of(POLICY)
    desk.turn.core.authority.adopt(policy)
    desk.turn.core.authority.give_rights(desk.handler, policy.rights("alice", [role]))
    return desk


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        (SubscriptionChange(True, ["/a/x", "/b"], 7), "subscribe '/b': not granted to user 'alice'"),
        (
            SubscriptionChange(True, [""], 7),
            "subscribe '': not granted as a whole to user 'alice'; granted beneath: '/a/', '/alice/'",
        ),
        (
            RuleChange(True, [(("red",), "", "")], 7),
            "subscribe '': not granted as a whole to user 'alice'; granted beneath: '/a/', '/alice/'",
        ),
        (
            RuleChange(True, [(("red",), "/a/x", ""), ((), "/b", "x.y")], 7),
            "subscribe '/b': not granted to user 'alice'",
        ),
        (ServiceChange(True, ["/b"], 7), "serve '/b': not granted to user 'alice'"),
        (NameClaim(7, Wish("org.b")), "claim 'org.b': not granted to user 'alice'"),
        (Fetch(7, prefixes=("/b",)), "journal '/b': not granted to user 'alice'"),
        (publication("/b", request=7), None),
    ],
)
def test_what_is_not_granted(verb: Verb, text: str | None) -> None:
    """One answer with the number of the request, which is told to the audit; nothing else is done."""
    desk = restricted()
    (told,) = desk.ask(verb)
    if text is None:
        assert told == ("refused", 7, CloseCode.NOT_ALLOWED, 1)
    else:
        assert told == ("error", 7, CloseCode.NOT_ALLOWED, text)
    assert desk.node.audit.refused_total == 1
    assert desk.handler.prefixes == {}
    assert len(desk.turn.core.rules) == 0


@pytest.mark.parametrize(
    "verb",
    [
        SubscriptionChange(True, ["/a/x", "/alice/"], 7),
        RuleChange(True, [(("red",), "/a/x", "")], 7),
        ServiceChange(True, ["/a/x"], 7),
        NameClaim(7, Wish("org.a.x")),
        publication("/a/x", request=7),
    ],
)
def test_what_is_granted(verb: Verb) -> None:
    desk = restricted()
    (told,) = desk.ask(verb)
    assert told[:2] == ("confirmed", 7)
    assert desk.node.audit.refused_total == 0


def test_what_is_taken_away() -> None:
    desk = restricted("all")
    desk.ask(SubscriptionChange(True, ["/b"], 7))
    desk.ask(NameClaim(8, Wish("org.b")))
    desk.turn.core.authority.give_rights(desk.handler, policy_of(POLICY).rights("alice"))
    text = "no longer granted to user 'alice', and taken away: claim 'org.b', subscribe '/b'"
    assert desk.far.told == [("name", "org.b", "lost"), ("error", 0, CloseCode.NOT_ALLOWED, text)]
    assert desk.handler.prefixes == {}
