"""`ForHubs`: what other hubs ask about consumers, and whose clients are gone."""

from __future__ import annotations

from typing import Any

import pytest

from hub.request_frame import Reply, Request, Status
from hub.requests.hub_services import Later, target_at
from peers.journal.consumers import far_consumers as module
from peers.journal.consumers.far_consumers import GONE, WHAT, FarClient, ForHubs, Question, encode_question
from tests.hub.requests.party import Room, values_of
from tests.hub.rights.hall import policy_of

HERE, THERE = b"h" * 16, b"t" * 16


class Bench:
    def __init__(self) -> None:
        self.room = Room(hub_id=HERE)
        self.joined: list[FarClient] = []
        self.gone: list[FarClient] = []
        self.later = Later()
        functions = {"join": self._join, "take": lambda _client, _value: self.later}
        self.for_hubs = ForHubs(self.room.core, functions, self.gone.append)
        self.link, self.outlet = self.room.link(THERE)

    def _join(self, client: FarClient, value: Any) -> Any:
        self.joined.append(client)
        return value

    def ask(self, what: str, value: Any = None, *, client: int = 1, run: int = 1) -> list[tuple[int, Any]]:
        question = encode_question(Question(THERE, run, client, what, value))
        self.room.ask(self.link, Request(target_at(HERE, WHAT), 1, 0, question))
        return self.answers()

    def answers(self) -> list[tuple[int, Any]]:
        self.room.settle()
        return [(item.status, values_of(item)[0]) for item in self.outlet.take() if isinstance(item, Reply)]


def test_a_hub_that_was_started_anew_has_other_clients() -> None:
    bench = Bench()
    assert bench.ask("join", "a") == [(Status.OK, "a")]
    assert bench.ask("join", "b") == [(Status.OK, "b")]
    first, again = bench.joined
    assert first is again
    assert bench.ask("join", "c", run=2) == [(Status.OK, "c")]
    assert bench.gone == [first]
    assert first.is_gone
    assert not bench.joined[-1].is_gone


def test_a_link_of_another_user_does_not_speak_for_a_hub() -> None:
    """Whatever it says of the hub's clients, they are members still; and their own hub is answered."""
    bench = Bench()
    policy = policy_of('[roles.linked]\nlink = { bring = ["/c"], take = ["/c"] }\n[users]\nevil = ["linked"]\n')
    assert bench.ask("join", "a") == [(Status.OK, "a")]
    theirs = bench.link, bench.outlet
    bench.link, bench.outlet = bench.room.link(b"e" * 16)
    bench.link.rights = policy.rights("evil")
    for what, run in ((GONE, 1), ("take", 2), ("", 2)):
        ((status, text),) = bench.ask(what, run=run)
        assert status == Status.NOT_ALLOWED
        assert text.endswith("have come by the link of another user")
    assert bench.gone == []
    bench.link, bench.outlet = theirs
    assert bench.ask("join", "b") == [(Status.OK, "b")]
    assert len(set(bench.joined)) == 1


def test_a_client_that_has_left_is_gone_once() -> None:
    bench = Bench()
    bench.ask("join")
    for client in (1, 1, 2):
        assert bench.ask(GONE, client=client) == [(Status.OK, None)]
    assert bench.gone == bench.joined


def test_a_hub_that_is_reached_no_more() -> None:
    bench = Bench()
    bench.ask("join")
    bench.for_hubs.tick()
    assert bench.gone == []
    bench.room.core.detach(bench.link, "lost")
    bench.room.core.mesh.check(1.0)
    bench.for_hubs.tick()
    assert bench.gone == bench.joined


def test_what_is_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    assert bench.ask("dance") == [(Status.FAILED, "that hub answers no such question about its consumers")]
    bench.room.ask(bench.link, Request(target_at(HERE, WHAT), 1, 0, b"\x01"))
    ((status, text),) = bench.answers()
    assert status == Status.FAILED
    assert text.startswith("no question: ")
    monkeypatch.setattr(module, "ANSWERING_LIMIT", 1)
    assert bench.ask("take") == []
    assert bench.ask("take")[0][0] == Status.OVERFLOW
    bench.later.give([])
    assert bench.answers() == [(Status.OK, [])]
