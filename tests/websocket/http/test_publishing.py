"""One POST: what is published, and what is answered."""

from __future__ import annotations

import json
from typing import Any

from hub.errors import CloseCode, RejectedError
from peers.verbs.publish import Publication
from peers.websocket.http.content import Target, Values
from peers.websocket.http.publishing import RANGES_LIMIT, Publishing


class Hub:
    """It keeps what is published."""

    def __init__(self, *, confirm: bool = False) -> None:
        self.published: list[Publication] = []
        self.post = Publishing(Target(b"/a", 0, confirm), self._act)

    def _act(self, publication: Publication) -> int:
        self.published.append(publication)
        if not publication.confirm:
            self.post.confirmed(publication.request)
        return 0

    def publish(self, count: int, line: int = 1) -> None:
        self.post.publish(Values([b"\x01"] * count, line))

    def answer(self) -> tuple[int, Any]:
        self.post.is_done = True
        assert self.post.is_settled
        status, body = self.post.answer()
        return status.value, json.loads(body)


def test_what_was_published_is_counted() -> None:
    hub = Hub()
    hub.publish(2)
    hub.publish(3)
    assert [one.messages for one in hub.published] == [2, 3]
    assert hub.answer() == (200, {"messages": 5})


def test_nothing_behind_a_refusal() -> None:
    hub = Hub()
    hub.publish(2, 1)
    hub.post.refuse(CloseCode.BAD_DATA, "no JSON", 3)
    hub.publish(2, 4)
    assert len(hub.published) == 1
    told = {"error": {"code": 1007, "text": "no JSON", "line": 3}, "messages": 2}
    assert hub.answer() == (400, told)


def test_it_waits_for_the_journal() -> None:
    hub = Hub(confirm=True)
    for _ in range(3):
        hub.publish(2)
    hub.post.is_done = True
    for request, offset in ((1, 10), (2, 12), (3, 20)):
        assert not hub.post.is_settled
        hub.post.recorded(request, offset, 2)
    assert hub.answer() == (200, {"messages": 6, "offsets": [[10, 4], [20, 2]]})


def test_what_is_not_recorded() -> None:
    hub = Hub(confirm=True)
    hub.publish(1, 1)
    hub.publish(1, 2)
    hub.post.refused(RejectedError(CloseCode.JOURNAL_FAILED, "full"), 1)
    assert hub.post.is_refused
    assert not hub.post.is_settled
    hub.post.recorded(2, 7, 1)
    told = {"error": {"code": 4012, "text": "full", "line": 1}, "messages": 1, "offsets": [[7, 1]]}
    assert hub.answer() == (503, told)


def test_many_ranges() -> None:
    hub = Hub(confirm=True)
    for number in range(RANGES_LIMIT + 5):
        hub.publish(1)
        hub.post.recorded(number + 1, number * 2, 1)
    status, told = hub.answer()
    assert (status, len(told["offsets"]), told["untold"]) == (200, RANGES_LIMIT, 5)
