"""What links have carried, by the name of the hub at their other end."""

from __future__ import annotations

from peers.node.accounts import Loss, Peer
from peers.node.traffic import KEPT_S, NAMES_KEPT, Carried, LinkTraffic, Moment, Traffic


class Standing:
    def __init__(self, name: str = "south", number: int = 1, *, lag_s: float | None = None, cost: int = 1) -> None:
        self.peer = Peer(bytes([number]) * 16, name, "tcp://192.0.2.1:7400")
        self.sums = Carried()
        self.now = Moment(queued_messages=0, waiting_s=0.0, lag_s=lag_s, cost=cost)

    def carried(self) -> Carried:
        return self.sums

    def moment(self, now_s: float) -> Moment:
        del now_s
        return self.now


def told(traffic: Traffic, now_s: float = 0.0) -> dict[str, LinkTraffic]:
    return {one.hub: one for one in traffic.statistics(now_s)}


def test_sums_go_on_over_links_to_one_hub() -> None:
    traffic, first, second = Traffic(), Standing(lag_s=0.5), Standing(number=2, lag_s=0.1)
    traffic.begin(first, 0.0)
    first.sums = Carried(1, 10, 2, 20, 3, 4, 5)
    traffic.end(first, 1.0)
    first.sums = Carried(100)  # it is over
    down = told(traffic)["south"]
    assert (down.links, down.carried, down.lag_s, down.cost) == (0, Carried(1, 10, 2, 20, 3, 4, 5), None, None)
    traffic.begin(second, 2.0)
    second.sums = Carried(received_messages=1)
    up = told(traffic)["south"]
    assert (up.links, up.carried.received_messages, up.lag_s, up.cost) == (1, 2, 0.1, 1)
    traffic.end(second, 3.0)
    traffic.end(second, 3.0)
    assert told(traffic)["south"].carried.received_messages == 2


def test_what_was_lost_with_links() -> None:
    traffic, link = Traffic(), Standing()
    traffic.begin(link, 0.0)
    traffic.end(link, 1.0)
    for number, (is_outward, exactly, is_overtaken) in enumerate(
        [(True, True, False), (False, True, False), (False, True, True), (True, False, False)], 1
    ):
        traffic.lose(Loss(link.peer, is_outward, number, exactly, is_overtaken))
    dropped = told(traffic)["south"].dropped
    assert dropped == {"queue_full": 0, "too_large": 0, "cut": 1, "missed": 2, "overtaken": 3}


def test_a_hub_that_has_gone_for_good_is_forgotten() -> None:
    traffic, link = Traffic(), Standing()
    traffic.begin(link, 0.0)
    link.sums = Carried(sent_messages=5)
    traffic.lose(Loss(link.peer, is_outward=True, messages=2, exactly=True))
    traffic.end(link, 10.0)
    assert told(traffic, 9.0 + KEPT_S).keys() == {"south"}
    gone = told(traffic, 10.0 + KEPT_S)
    assert gone.keys() == {""}
    assert (gone[""].links, gone[""].carried.sent_messages, gone[""].dropped["cut"]) == (0, 5, 2)


def test_names_are_bounded() -> None:
    """Those that have gone make room; where all are up, further ones are shown together, also once there is room."""
    traffic = Traffic()
    links = [Standing(f"hub-{number}") for number in range(NAMES_KEPT)]
    for link in links:
        link.sums = Carried(received_messages=1)
        traffic.begin(link, 0.0)
    more = Standing("more")
    more.sums = Carried(received_messages=1)
    traffic.begin(more, 1.0)
    shown = told(traffic, 1.0)
    assert len(shown) == NAMES_KEPT + 1
    assert "more" not in shown
    assert (shown[""].links, shown[""].carried.received_messages) == (1, 1)
    traffic.end(links[7], 2.0)
    traffic.end(links[3], 3.0)
    traffic.begin(Standing("other"), 4.0)
    shown = told(traffic, 4.0)
    assert len(shown) == NAMES_KEPT + 1
    assert "hub-7" not in shown
    assert {"hub-3", "other"} <= shown.keys()
    traffic.begin(Standing("more", 2), 5.0)
    traffic.end(more, 6.0)
    shown = told(traffic, 6.0)
    assert (shown["more"].links, shown[""].links) == (1, 0)
    assert sum(one.carried.received_messages for one in shown.values()) == NAMES_KEPT + 1


def test_the_links_that_are_up() -> None:
    traffic, one, other = Traffic(), Standing("one"), Standing("other")
    for link in (one, other):
        traffic.begin(link, 0.0)
    traffic.end(one, 0.0)
    assert list(traffic.standing()) == [other]
    assert told(traffic)["other"].fields() == {
        "hub": "other",
        "links": 1,
        "dropped": {"queue_full": 0, "too_large": 0, "cut": 0, "missed": 0, "overtaken": 0},
        "queued_messages": 0,
        "waiting_s": 0.0,
        "lag_s": None,
        "cost": 1,
        "received_messages": 0,
        "received_bytes": 0,
        "sent_messages": 0,
        "sent_bytes": 0,
        "path_changes": 0,
    }
