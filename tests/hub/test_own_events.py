"""What the hub tells of itself: to whom here, and to nobody else."""

from __future__ import annotations

from hub.delivery import Role
from hub.events import Event
from tests.hub.fakes import Turn


def test_clients_and_peers_are_announced() -> None:
    turn = Turn()
    _, watcher = turn.join("$hub/", role=Role.LOCAL)
    _, link = turn.join("$hub/", "", role=Role.LINK, name="hub-2")
    client, own = turn.join("$hub/client/", name="one")
    turn.core.detach(client, "done")
    turn.core.flush()
    seen = [(topic, value["name"], value.get("reason")) for topic, value in watcher.messages]
    assert seen == [
        ("$hub/peer/joined", "hub-2", None),
        ("$hub/client/joined", "one", None),
        ("$hub/client/left", "one", "done"),
    ]
    assert link.messages == []
    assert own.messages == []
    left = turn.join(role=Role.LINK, name="hub-3")[0]
    turn.core.detach(left, "lost")
    turn.core.flush()
    assert [topic for topic, _ in watcher.messages[3:]] == ["$hub/peer/joined", "$hub/peer/left"]


def test_links_alone_make_no_topic_wanted() -> None:
    turn = Turn()
    turn.join("/a", role=Role.LINK)
    assert not turn.core.own_events.is_wanted("/a")
    turn.join("/a", role=Role.LOCAL)
    assert turn.core.own_events.is_wanted("/a/b")
    assert not turn.core.own_events.is_wanted("/")


def test_whoever_is_not_meant_to_hear_the_hub() -> None:
    turn = Turn()
    deaf, outlet = turn.join("")
    deaf.restrict(hub=False)
    assert not turn.core.own_events.is_wanted("$hub/overflow")
    turn.join(name="new")
    turn.core.flush()
    assert outlet.values == []
    turn.core.subscribe(deaf, ["$hub/client/"])
    assert turn.core.own_events.is_wanted("$hub/client/joined")
    turn.join(name="newer")
    turn.core.flush()
    assert [value["name"] for value in outlet.values] == ["newer"]


def test_nobody_pays_for_events_that_nobody_wants() -> None:
    turn = Turn()
    turn.join("/a")
    assert turn.wakes == 0
    assert not turn.core.routes.table


def test_what_is_announced_may_be_taken_by_somebody_else() -> None:
    turn = Turn()
    own_events = turn.core.own_events
    _, watcher = turn.join("$hub/")
    taken: list[Event] = []
    own_events.announcing = taken.append
    event = Event("$hub/x", 1)
    own_events.announce(event)
    turn.core.flush()
    assert (taken, watcher.messages) == ([event], [])
    own_events.tell_here(event)
    turn.core.flush()
    assert watcher.messages == [("$hub/x", 1)]
