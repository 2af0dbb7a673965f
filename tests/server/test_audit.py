"""What is told on `$hub/audit`, to whom, and how often."""

from __future__ import annotations

from hub.core import Core
from hub.errors import CloseCode, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.policy.language import read_policy
from hub.statistics.events import AUDIT_TOPIC, Event
from peers.server.audit import KEPT, KINDS, KINDS_OF_USER, Audit
from tests.hub.fakes import FakeOutlet
from tests.hubs.slow_journal import SlowJournal

POLICY = read_policy({"users": {"ada": ["admin"], "bob": ["member"]}}, "a test")
REFUSED = RejectedError(CloseCode.NOT_ALLOWED, "publish '/a': not granted")


def handler_of(user: str) -> Handler:
    return Handler(
        FakeOutlet(), role=Role.CLIENT, limits=QueueLimits(), name="n", address="x:1", rights=POLICY.rights(user)
    )


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.audit = Audit(self.events.append, lambda: 12.5)

    def take(self) -> list[dict[str, object]]:
        told, self.events[:] = [dict(event.value) for event in self.events], []
        for one in told:
            assert one.pop("at") == 12.5
        return told


def test_refusals_are_summed_up() -> None:
    heard = Heard()
    bob = handler_of("bob")
    for count in (1, 5, 5):
        heard.audit.refused(bob, "publish", REFUSED, count)
    who = {"user": "bob", "id": 0, "name": "n", "address": "x:1", "text": REFUSED.text}
    assert heard.take() == [{"what": "refused", "action": "publish", "count": 1} | who]
    heard.audit.tick()
    assert heard.take() == [{"what": "refused", "action": "publish", "count": 10} | who]
    heard.audit.tick()
    heard.audit.tick()
    assert heard.take() == []
    heard.audit.refused(bob, "publish", REFUSED)
    assert len(heard.take()) == 1
    assert heard.audit.refused_total == 12


def test_kinds_are_told_apart() -> None:
    heard = Heard()
    for user in ("ada", "bob"):
        for what in ("publish", "subscribe"):
            heard.audit.refused(handler_of(user), what, REFUSED)
    assert len(heard.take()) == 4
    for number in range(KINDS):
        heard.audit.turned_away("x:1", f"reason {number}", "not even that")
    assert len(heard.take()) == KINDS - 4
    heard.audit.tick()
    assert heard.take() == [{"what": "refused", "action": "others", "count": 4}]


def test_nobody_hides_what_others_try() -> None:
    heard = Heard()
    bob, ada = handler_of("bob"), handler_of("ada")
    for _ in range(2):
        for number in range(KINDS):
            heard.audit.refused(bob, "publish", RejectedError(CloseCode.NOT_ALLOWED, f"/{number}"))
        heard.audit.refused(ada, "publish", REFUSED)
        told = [one["user"] for one in heard.take()]
        assert told == ["bob"] * KINDS_OF_USER + ["ada"]
        heard.audit.tick()
        assert heard.take() == [{"what": "refused", "action": "others", "count": KINDS - KINDS_OF_USER}]
        heard.audit.tick()


def test_who_may_do_everything_is_refused_for_other_reasons() -> None:
    heard = Heard()
    handler = Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits())
    heard.audit.refused(handler, "subscribe", REFUSED)
    heard.audit.tick()
    assert heard.take() == []


def test_what_admins_do() -> None:
    heard = Heard()
    heard.audit.did(handler_of("ada"), "reload", changed=["queue.messages"])
    heard.audit.did(None, "reload", changed=[])
    first, second = heard.take()
    assert (first["what"], first["user"], first["changed"]) == ("reload", "ada", ["queue.messages"])
    assert (second["user"], second["name"]) == ("", "signal")


async def test_admins_hear_of_it() -> None:
    core = Core()
    journal = SlowJournal(core, AUDIT_TOPIC)
    outlets: dict[str, FakeOutlet] = {}
    for user in ("ada", "bob", ""):
        outlets[user] = FakeOutlet()
        handler = Handler(outlets[user], role=Role.CLIENT, limits=QueueLimits(), name=user)
        core.attach(handler)
        core.subscribe(handler, [AUDIT_TOPIC])
        handler.rights = POLICY.rights(user) if user else None
    Audit(core.system_events.announce, lambda: 12.5).did(None, "drain")
    core.flush()
    assert {user: len(outlet.batches) for user, outlet in outlets.items()} == {"ada": 1, "bob": 0, "": 1}
    assert len(journal.entries) == 1


def test_what_was_told_before() -> None:
    moments = iter([1.0, 2.0, 2.0, 2.0, 3.0])
    audit = Audit(lambda _: None, lambda: next(moments))
    for number in range(5):
        audit.did(handler_of("ada"), "kick", of={"id": number})
    first = audit.before(9.0, 2)
    assert [event["of"]["id"] for event in first] == [4, 3, 2, 1], "those of the same moment, too"
    assert [event["of"]["id"] for event in audit.before(first[-1]["at"], 2)] == [0]
    assert audit.before(1.0, 2) == []


def test_what_is_kept_is_bounded() -> None:
    heard = Heard()
    heard.audit.refused(handler_of("bob"), "publish", REFUSED)
    for _ in range(KEPT + 1):
        heard.audit.recognised(handler_of("bob"), "token")
    (event,) = heard.audit.before(99.0, 10)
    assert event["what"] == "refused"
    for _ in range(KEPT + 1):
        heard.audit.did(handler_of("ada"), "kick", of={"id": 1}, text="x" * 100_000)
    assert len(heard.audit.before(99.0, 2 * KEPT)) == KEPT
    assert len(heard.audit.before(99.0, 1)[0]["text"]) == 1_001
    assert len(heard.take()[-1]["text"]) == 100_000, "events are told whole"  # type: ignore[arg-type]
