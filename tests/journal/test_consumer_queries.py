"""`Queries`: consumers that read by themselves and say how far they are, at a hub with a journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hub.consumers.consumer import Progress
from hub.consumers.terms import Terms
from hub.policy.language import read_policy
from hub.request_frame import Status
from peers.journal.consumers.positions import Kept, Positions
from peers.journal.consumers.service import FORGOTTEN_S, Queries
from tests.hubs.eventually import eventually
from tests.journal.test_consumers import Asker, Bench

pytestmark = pytest.mark.usefixtures("uncaught")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


async def filled(path: Path, records: int = 3, **settings: Any) -> Bench:
    bench = Bench(path, **settings)
    bench.publish(*range(records))
    await eventually(lambda: bench.journal.committed == records)
    return bench


async def commit(asker: Asker, position: int, name: str = "q", *prefixes: str) -> Any:
    return await asker.ask("/commit", {"name": name, "prefixes": prefixes or ["/a"], "position": position})


async def test_a_query_has_a_lag_and_no_members(path: Path) -> None:
    """The first word of it makes it, each further one moves it; also back, where it began anew."""
    bench = await filled(path)
    asker = Asker(bench)
    for position, lag in ((1, 2), (3, 0), (3, 0), (0, 3)):
        assert await commit(asker, position) is None
        row = await bench.row("q")
        assert (row["position"], row["lag"], row["members"], row["prefixes"]) == (position, lag, 0, ["/a"])
        assert 0 <= row["committed_s"] < 60
    assert await commit(asker, 3, "q", "/b") is None
    assert (await bench.row("q"))["prefixes"] == ["/b"]
    await asker.join("c")
    assert (await bench.row("c"))["committed_s"] is None
    await bench.journal.stop()


async def test_it_is_there_after_a_restart(path: Path) -> None:
    bench = await filled(path)
    await commit(Asker(bench), 2)
    await commit(Asker(bench), 1, "other")
    assert await Asker(bench).ask("/remove", {"name": "other"}) is True
    assert await Asker(bench).ask("/remove", {"name": "other"}) is False
    await bench.journal.stop()
    bench = Bench(path)
    (row,) = await Asker(bench).ask("", None)
    assert (row["name"], row["position"], row["lag"]) == ("q", 2, 1)
    assert row["committed_s"] >= 0
    await bench.journal.stop()


async def test_nobody_shares_a_query_and_no_consumer_becomes_one(path: Path) -> None:
    """A slip of a name must not move a consumer beyond messages that it has not got."""
    bench = await filled(path)
    asker = Asker(bench)
    await commit(asker, 1)
    status, text = await asker.ask("/join", {"name": "q", "terms": {"prefixes": ["/a"]}})
    assert (status, "is a query" in text) == (Status.FAILED, True)
    member = await asker.join("c")
    for _ in range(2):
        status, text = await commit(asker, 1, "c")
        assert (status, "one that clients share" in text) == (Status.FAILED, True)
        await asker.ask("/leave", {"member": member})
    await bench.journal.stop()


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"position": 4}, "behind the end of the journal, which is 3"),
        ({"position": 2**63 - 1}, "behind the end of the journal"),
        ({"position": 2**63}, "expected a map like name, prefixes, position"),
        ({"position": -1}, "expected a map like"),
        ({"position": 1.5}, "expected a map like"),
        ({"position": None}, "expected a map like"),
        ({"prefixes": []}, "terms: expected a map like"),
        ({"prefixes": ["/a"] * 65}, "terms: expected a map like"),
        ({"prefixes": ["/" + "a" * 1024]}, "terms: expected a map like"),
        ({"prefixes": "/a"}, "expected a map like"),
        ({"name": "a/b"}, "a consumer's name has"),
        ({"name": ""}, "a consumer's name has"),
        ({"key": "all"}, "expected a map like"),
    ],
)
async def test_what_makes_no_sense_is_refused(path: Path, asked: dict[str, Any], reason: str) -> None:
    bench = await filled(path)
    status, text = await Asker(bench).ask("/commit", {"name": "q", "prefixes": ["/a"], "position": 1} | asked)
    assert (status, reason in text) == (Status.FAILED, True), text
    assert await Asker(bench).ask("", None) == []
    await bench.journal.stop()


async def test_queries_count_for_the_limit(path: Path) -> None:
    bench = await filled(path, consumers=2)
    asker = Asker(bench)
    await asker.join("c")
    assert await commit(asker, 1) is None
    joined = await asker.ask("/join", {"name": "d", "terms": {"prefixes": ["/"]}})
    for refused in (await commit(asker, 1, "more"), joined):
        assert refused == (Status.FAILED, "there are 2 consumers, the limit is 2 (journal.consumers)")
    assert await commit(asker, 2) is None
    await bench.journal.stop()


async def test_who_may_not_read_may_not_say_so(path: Path) -> None:
    policy = read_policy({"roles": {"reader": {"journal": ["/a"]}}, "users": {"alice": ["reader"]}}, "policy.toml")
    bench = await filled(path)
    bench.turn.core.authority.adopt(policy)
    asker = Asker(bench, policy.rights("alice"))
    assert await commit(asker, 1, "q", "/a/") is None
    status, _ = await commit(asker, 1, "q", "/b")
    assert status is Status.NOT_ALLOWED
    (told,) = bench.journal.consumers.statistics().each
    assert (told.name, told.lag) == ("alice/q", 2)
    assert await asker.ask("/remove", {"name": "q"}) is True
    await bench.journal.stop()


async def test_one_that_is_not_heard_of_is_forgotten(tmp_path: Path) -> None:
    file = str(tmp_path / "consumers.db")
    now_s = [1_000.0]
    told: list[tuple[str, dict[str, Any]]] = []
    positions = Positions(file, b"j" * 16, full_sync=False)
    queries = Queries(positions, lambda name, fields: told.append((name, fields)), lambda: now_s[0])
    terms = Terms(("/a",))
    queries.commit("gone", terms, 5)
    queries.commit("stays", terms, 5)
    now_s[0] += FORGOTTEN_S
    queries.commit("stays", terms, 5)
    queries.tick()
    assert "gone" in queries
    now_s[0] += 1.0
    queries.tick()
    assert ("gone" in queries, "stays" in queries, queries.forgotten_total) == (False, True, 1)
    assert told[-1] == ("gone", {"state": "forgotten", "position": 5})
    queries.commit("stays", terms, 3)
    assert told[-1] == ("stays", {"state": "back", "from": 5, "to": 3})
    queries.keep()
    await positions.stop()
    again = Positions(file, b"j" * 16, full_sync=False)
    assert {name: (kept.progress.position, kept.heard_s) for name, kept in again.kept.items()} == {
        "stays": (3, now_s[0])
    }
    assert isinstance(again.kept["stays"], Kept)
    await again.stop()


async def test_a_clock_that_is_set_back_shows_no_time_to_come(tmp_path: Path) -> None:
    positions = Positions(str(tmp_path / "consumers.db"), b"j" * 16, full_sync=False)
    queries = Queries(positions, lambda _name, _fields: None, lambda: 10.0)
    queries.kept["q"] = Kept(Terms(("/a",)), Progress(7), 1e12)
    (row,) = queries.statistics(9)
    assert (row.committed_s, row.lag) == (0.0, 2)
    await positions.stop()
