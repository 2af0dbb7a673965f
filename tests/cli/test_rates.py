"""From two looks at the handlers to their rates."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hub.errors import ProtocolError
from hub.quotas.quotas import ShareStatistics
from hub.statistics import HandlerStatistics
from peers.cli.top import (
    Activity,
    Assembly,
    HandlerCounters,
    LinkFigures,
    Snapshot,
    Sort,
    UserHoldings,
    activities,
    total,
)
from peers.node.traffic import Carried, LinkTraffic


def counters(number: int, **changes: Any) -> dict[str, Any]:
    """What a hub says of one handler."""
    return {
        "id": number,
        "role": "client",
        "name": f"client {number}",
        "address": "127.0.0.1:1",
        "prefixes": 1,
        "sample": ["/a"],
        "published_messages": 0,
        "delivered_messages": 0,
        "delivered_bytes": 0,
        "queued_messages": 0,
        "queued_bytes": 0,
        "dropped_messages": 0,
        "overflow": "drop-oldest",
        "paused": False,
    } | changes


def snapshot(at_s: float, *handlers: dict[str, Any], hub: str = "h") -> Snapshot:
    """One look."""
    return Snapshot(hub, at_s, msgspec.convert(handlers, tuple[HandlerCounters, ...]))


def part(at_s: float, handlers: int, first: int, *some: dict[str, Any], hub: str = "h") -> dict[str, Any]:
    """One message of a look."""
    return {"hub": hub, "at_s": at_s, "handlers": handlers, "first": first, "some": list(some)}


def names(rows: list[Activity]) -> list[int]:
    """The handlers of rows, by id."""
    return [row.handler.id for row in rows]


def test_the_counters_are_those_of_the_hub() -> None:
    """What the hub announces of a handler is understood, field by field."""
    assert set(HandlerCounters.__struct_fields__) == set(HandlerStatistics._fields)


def test_the_figures_of_links_are_those_of_the_hub() -> None:
    """What is shown of them is what the hub announces; and it is kept with the look."""
    told = LinkTraffic("south", 1, Carried(path_changes=2), {"cut": 3}, 0, 0.0, 0.5, 4).fields()
    assert set(LinkFigures.__struct_fields__) <= told.keys()
    assembly = Assembly()
    assert assembly.feed(part(1.0, 2, 0, counters(1)) | {"links": [told]}) is None
    look = assembly.feed(part(1.0, 2, 1, counters(2)))
    assert look is not None
    assert look.links == (
        LinkFigures(hub="south", links=1, dropped={"cut": 3}, waiting_s=0.0, lag_s=0.5, cost=4, path_changes=2),
    )


def test_the_holdings_are_those_of_the_hub() -> None:
    """What the hub announces of a user is understood, field by field."""
    assert UserHoldings.__struct_fields__ == ShareStatistics._fields


def test_the_first_message_of_a_look_has_the_users() -> None:
    """They are those of the look, however many messages follow."""
    assembly = Assembly()
    users = [ShareStatistics("alice", 1, {"rules": 3}, 2, 1.5)._asdict()]
    assert assembly.feed(part(1.0, 2, 0, counters(1)) | {"users": users}) is None
    found = assembly.feed(part(1.0, 2, 1, counters(2)))
    assert found is not None
    assert found.users == (UserHoldings(user="alice", users=1, held={"rules": 3}, refused_total=2, held_back_s=1.5),)
    assert assembly.feed(part(2.0, 1, 0, counters(1))) == snapshot(2.0, counters(1))


def test_one_message_can_be_a_whole_look() -> None:
    """A hub with few handlers says it all at once; fields of later versions are passed over."""
    found = Assembly().feed(part(1.0, 1, 0, counters(1, later="x")) | {"later": 1})
    assert found == snapshot(1.0, counters(1))


def test_a_hub_without_handlers_is_a_look_too() -> None:
    """Nobody is there: an empty snapshot."""
    assert Assembly().feed(part(1.0, 0, 0)) == snapshot(1.0)


def test_the_messages_of_a_look_are_put_together() -> None:
    """Only the last of them completes it, and the handlers are in order."""
    assembly = Assembly()
    assert assembly.feed(part(1.0, 3, 0, counters(1), counters(2))) is None
    assert assembly.feed(part(1.0, 3, 2, counters(3))) == snapshot(1.0, counters(1), counters(2), counters(3))


def test_a_look_with_a_hole_is_dropped() -> None:
    """A message that was lost spoils its own look, not the next one."""
    assembly = Assembly()
    assert assembly.feed(part(1.0, 3, 0, counters(1))) is None
    assert assembly.feed(part(1.0, 3, 2, counters(3))) is None
    assert assembly.feed(part(2.0, 1, 0, counters(1))) == snapshot(2.0, counters(1))
    assert assembly.feed(part(3.0, 3, 2, counters(3))) is None


@pytest.mark.parametrize("value", [None, 5, {}, {"hub": "h"}, part(1.0, 1, 0, {"id": 1})])
def test_what_is_not_understood_is_an_error(value: Any) -> None:
    """Another version's statistics, or nonsense, are named as such."""
    with pytest.raises(ProtocolError, match="hub/statistics"):
        Assembly().feed(value)


def test_rates_are_differences_over_the_hubs_own_time() -> None:
    """Two looks two seconds apart: half of what was added between them."""
    before = snapshot(10.0, counters(1, published_messages=100, dropped_messages=5))
    now = snapshot(
        12.0, counters(1, published_messages=300, delivered_messages=40, delivered_bytes=4000, dropped_messages=8)
    )
    (row,) = activities(before, now)
    assert row[1:] == (100.0, 20.0, 2000.0, 3)


def test_a_handler_that_has_just_come_began_at_nothing() -> None:
    """All that it did lies between the two looks."""
    (row,) = activities(snapshot(10.0), snapshot(11.0, counters(7, published_messages=50)))
    assert row.in_per_s == 50.0


def test_queued_messages_that_are_dropped_give_no_negative_rate() -> None:
    """They counted as delivered while they waited; the rate never goes below nothing."""
    before = snapshot(10.0, counters(1, delivered_messages=100))
    (row,) = activities(before, snapshot(11.0, counters(1, delivered_messages=40, dropped_messages=60)))
    assert (row.out_per_s, row.dropped_lately) == (0.0, 60)


@pytest.mark.parametrize(
    "before", [None, snapshot(20.0, counters(1)), snapshot(9.0, counters(1), hub="other"), snapshot(10.0, counters(1))]
)
def test_without_a_fitting_earlier_look_there_are_no_rates(before: Snapshot | None) -> None:
    """None at all, one of another hub, or one from before a restart (its clock was ahead)."""
    (row,) = activities(before, snapshot(10.0, counters(1, published_messages=50)))
    assert row[1:] == (None, None, None, None)
    assert total([row]).in_per_s is None


def test_rows_are_sorted() -> None:
    """By what was asked for, the most first; equal ones by id."""
    before = snapshot(0.0, counters(3, dropped_messages=50))
    now = snapshot(
        1.0,
        counters(1, name="b", delivered_messages=5, queued_messages=1),
        counters(2, name="A", published_messages=9, dropped_messages=1),
        counters(3, name="c", dropped_messages=50, queued_messages=7),
        counters(4, name="c"),
    )
    assert names(activities(before, now, Sort.RATE)) == [2, 1, 3, 4]
    assert names(activities(before, now, Sort.QUEUE)) == [3, 1, 2, 4]
    assert names(activities(before, now, Sort.DROPPED)) == [2, 3, 1, 4]
    assert names(activities(before, now, Sort.NAME)) == [2, 1, 3, 4]


def test_totals_add_up() -> None:
    """Rates, queues and losses of all rows."""
    before = snapshot(0.0)
    now = snapshot(
        2.0,
        counters(1, published_messages=10, queued_messages=3, queued_bytes=30, dropped_messages=1),
        counters(2, delivered_messages=20, delivered_bytes=400, queued_messages=4, queued_bytes=40),
    )
    assert total(activities(before, now)) == (5.0, 10.0, 200.0, 7, 70, 1, 1)


def test_the_sentence_of_a_look() -> None:
    """The first part has it; a hub of an earlier version has none."""
    assembly = Assembly()
    first = part(1.0, 2, 0, counters(1)) | {"state": {"text": "All 2 subscribers keep up.", "slow": 0}}
    assert assembly.feed(first) is None
    found = assembly.feed(part(1.0, 2, 1, counters(2)))
    assert found is not None
    assert found.state == "All 2 subscribers keep up."
    found = assembly.feed(part(2.0, 1, 0, counters(1)))
    assert found is not None
    assert found.state == ""
