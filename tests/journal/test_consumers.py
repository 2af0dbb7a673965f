"""`Consumers`: named consumers at a hub, with a journal, asked as clients ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY

import msgpack
import msgspec
import pytest

from hub.handlers.handler import Handler
from hub.messages.batch import Batch
from hub.messages.frame import KIND_MESSAGES, encode_frame
from hub.messages.request_frame import Reply, Request, Status
from hub.policy.language import read_policy
from hub.policy.policy import Rights
from hub.settings.settings import JournalSettings, Limits
from peers.journal.consumers import service as service_module
from peers.journal.consumers.service import FORGOTTEN_S
from peers.journal.journal import Journal
from tests.hub.fakes import Turn
from tests.hubs.eventually import eventually
from tests.journal.files import crashed, lose_power, segments

pytestmark = pytest.mark.usefixtures("uncaught")


class Asker:
    def __init__(self, bench: Bench, rights: Rights | None = None) -> None:
        self._bench = bench
        self.handler, self.outlet = bench.turn.join(rights=rights)
        self._number = 0
        self._answers: dict[int, asyncio.Future[Reply]] = {}

    async def ask(self, what: str, value: Any) -> Any:
        core = self._bench.turn.core
        core.scheduler.begin()
        services = core.requests.hub_services
        told: asyncio.Future[tuple[Status, bytes]] = asyncio.get_running_loop().create_future()
        request = Request(f"$hub/consumers{what}".encode(), 1, 0, msgpack.packb(value), 0)
        services.answer(
            self.handler, request, lambda status, values, _flags: told.done() or told.set_result((status, values))
        )
        status, values = await told
        answer = msgpack.unpackb(values, strict_map_key=False)
        return answer if status is Status.OK else (status, answer)

    async def join(self, name: str = "c", *prefixes: str, **fields: Any) -> int:
        terms = fields.pop("terms", {})
        joined = await self.ask(
            "/join", {"name": name, "terms": {"prefixes": prefixes or ["/"], **terms}, "start": 0, **fields}
        )
        assert isinstance(joined, dict), joined
        number: int = joined["member"]
        return number

    async def take(self, member: int, wait_ms: int = 60_000, **fields: Any) -> Any:
        rows = await self.ask("/take", {"member": member, "wait_ms": wait_ms, **fields})
        return [(row[0], msgpack.unpackb(row[5])) for row in rows] if isinstance(rows, list) else rows

    async def done(self, member: int, *offsets: int) -> None:
        assert await self.ask("/acknowledge", {"member": member, "offsets": offsets}) is None


class Bench:
    def __init__(self, path: Path, **settings: Any) -> None:
        self.turn = Turn()
        defaults = JournalSettings(path=str(path), commit_s=0.001, topics=("/",))
        self.journal = Journal(self.turn.core, msgspec.structs.replace(defaults, **settings), Limits())
        self.publisher, _ = self.turn.join()

    def publish(self, *values: Any, topic: str = "/a") -> None:
        self.turn.publish(self.publisher, topic, *values)
        self.turn.core.flush()

    def leave(self, handler: Handler) -> None:
        self.turn.core.detach(handler, "gone")

    async def row(self, name: str = "c") -> dict[str, Any]:
        rows = await Asker(self).ask("", None)
        found: dict[str, Any] = next(row for row in rows if row["name"] == name)
        return found


@pytest.fixture
async def bench(path: Path) -> AsyncIterator[Bench]:
    bench = Bench(path)
    yield bench
    await bench.journal.stop()


async def test_takes_what_is_wanted_in_order_and_waits_for_more(bench: Bench) -> None:
    bench.publish(1, 2)
    bench.publish(3, topic="/other")
    asker = Asker(bench)
    member = await asker.join("c", "/a")
    assert await asker.take(member) == [(0, 1), (1, 2)]
    assert await asker.take(member, wait_ms=1) == []
    waiting = asyncio.ensure_future(asker.take(member))
    late = await asker.join("late", start=None)
    bench.publish(4, topic="/other")
    bench.publish(5)
    assert await waiting == [(4, 5)]
    assert await asker.take(late) == [(3, 4), (4, 5)]


async def test_a_power_loss_that_takes_records_leaves_no_new_message_out(path: Path, tmp_path: Path) -> None:
    """What was acknowledged, or has failed, of lost records says nothing about those that get their offsets."""
    bench = Bench(path)
    bench.publish(*range(100))
    await eventually(lambda: bench.journal.recorder.committed == 100)
    written_bytes = segments(path)[-1].stat().st_size
    bench.publish(*range(100, 200))
    asker = Asker(bench)
    member = await asker.join("c", terms={"key": "none", "deliveries": 3})
    assert len(await asker.take(member)) == 200
    await asker.done(member, *range(1, 150), *range(151, 200))
    await asker.ask("/leave", {"member": member, "seen": [150]})
    await asker.ask("/commit", {"name": "q", "prefixes": ["/"], "position": 180})
    await asker.join("saved", start=0)  # answered when all before it is on the disk
    lost = crashed(path, tmp_path / "lost")
    lose_power(lost, written_bytes)
    await bench.journal.stop()
    again = Bench(lost)
    assert (await again.row("q"))["position"] == 100
    again.publish(*range(1000, 1100))
    asker = Asker(again)
    member = await asker.join("c", terms={"key": "none", "deliveries": 3})
    rows = await asker.ask("/take", {"member": member, "wait_ms": 60_000})
    assert [(row[0], row[2]) for row in rows] == [(0, 1), *((offset, 1) for offset in range(100, 200))]
    await again.journal.stop()


async def test_what_consumers_know_of_an_epoch_holds_for_its_records_alone(path: Path, tmp_path: Path) -> None:
    """Also where the hub is killed again, before it has written that it was cut back, and behind new records."""
    bench = Bench(path)
    bench.publish(*range(10))
    await eventually(lambda: bench.journal.recorder.committed == 10)
    written_bytes = segments(path)[-1].stat().st_size
    bench.publish(*range(10, 20))
    asker = Asker(bench)
    member = await asker.join("c", terms={"key": "none"})
    assert len(await asker.take(member)) == 20
    await asker.done(member, *range(20))
    await asker.join("saved", start=0)  # answered when all before it is on the disk
    lost = crashed(path, tmp_path / "lost")
    lose_power(lost, written_bytes)
    await bench.journal.stop()
    positions = crashed(lost, tmp_path / "positions")
    again = Bench(lost)
    again.publish(*range(100, 110))
    await eventually(lambda: again.journal.recorder.committed == 20)
    killed = crashed(lost, tmp_path / "killed")
    await again.journal.stop()
    for file in positions.glob("consumers.db*"):
        file.replace(killed / file.name)
    again = Bench(killed)
    asker = Asker(again)
    expected = [(offset, 90 + offset) for offset in range(10, 20)]
    assert await asker.take(await asker.join("c", terms={"key": "none"})) == expected
    statistics = again.journal.statistics()
    assert statistics is not None
    assert statistics.cuts_total == 1
    await again.journal.stop()


async def test_what_is_not_acknowledged_in_time_comes_again(bench: Bench) -> None:
    bench.publish(1)
    asker = Asker(bench)
    member = await asker.join(terms={"redeliver_s": 0.1})
    assert await asker.take(member) == [(0, 1)]
    rows = await asker.ask("/take", {"member": member, "wait_ms": 60_000})
    assert [(row[0], row[2]) for row in rows] == [(0, 2)]


async def test_what_fails_too_often_becomes_a_dead_letter(bench: Bench) -> None:
    bench.publish({"n": 1})
    asker = Asker(bench)
    for _ in range(2):
        asker = Asker(bench)
        member = await asker.join("c", "/a", terms={"deliveries": 2, "dead_letters": "/dead"})
        assert await asker.take(member) == [(0, {"n": 1})]
        bench.leave(asker.handler)
    other = Asker(bench)
    ((offset, letter),) = await other.take(await other.join("d", "/dead"))
    assert offset == 1
    assert letter.pop("time_us") > 0
    expected = {"consumer": "c", "offset": 0, "topic": "/a", "failures": 2, "value": {"n": 1}, "complete": True}
    assert letter == expected
    await eventually(lambda: not bench.journal.consumers.statistics().each[0].held)
    row = await bench.row()
    assert row["counters"]["dead_total"] == 1
    assert row["position"] >= 1


async def test_an_answer_that_is_lost_comes_again(bench: Bench) -> None:
    bench.publish(1, 2, 3)
    asker = Asker(bench)
    member = await asker.join(messages=2, terms={"deliveries": 1})
    assert await asker.take(member, got=0) == [(0, 1), (1, 2)]
    await asker.done(member, 0)
    assert await asker.take(member, got=1) == [(1, 2), (2, 3)]
    await asker.done(member, 1, 2)
    bench.publish(4)
    assert await asker.take(member, got=3) == [(3, 4)]
    assert (await bench.row())["counters"]["dead_total"] == 0


async def test_who_leaves_or_comes_back_fails_nothing_it_has_not_looked_at(bench: Bench) -> None:
    bench.publish(1, 2)
    asker = Asker(bench)
    for _ in range(2):
        member = await asker.join(terms={"deliveries": 1})
        assert len(await asker.take(member)) == 2
        await asker.ask("/leave", {"member": member, "seen": []})
        assert await asker.take(member) is None
    member = await asker.join(terms={"deliveries": 1})
    assert len(await asker.take(member)) == 2
    again = await asker.join(instead=member)
    assert await asker.take(again) == [(0, 1), (1, 2)]
    assert await asker.take(member) is None
    row = await bench.row()
    assert (row["members"], row["counters"]["dead_total"]) == (1, 0)


async def test_values_in_place_of_bodies(bench: Bench) -> None:
    frame = encode_frame(KIND_MESSAGES, b"\xa2\xff\xff", key=b"/a")  # text that is no UTF-8
    bench.publish({"n": [1, None]})
    core = bench.turn.core
    core.publish(bench.publisher, core.routes.find("/a"), Batch(frame, 1))
    core.flush()
    asker = Asker(bench)
    member = await asker.join()
    rows: list[list[Any]] = []
    while len(rows) < 2:
        rows += await asker.ask("/take", {"member": member, "wait_ms": 60_000, "values": True})
    assert [[row[0], *row[3:]] for row in rows] == [[0, "/a", True, {"n": [1, None]}], [1, "/a", False, None]]


REFUSED = [
    ({"name": "c"}, "there is no consumer 'c'"),
    ({"name": "a/b", "terms": {"prefixes": ["/"]}}, "a consumer's name has"),
    ({"name": "c", "terms": {"prefixes": []}}, "terms: expected a map like prefixes"),
    ({"name": "c", "terms": {"prefixes": ["\x00"]}}, "control character"),
    ({"name": "c", "terms": {"prefixes": ["/"], "dead_letters": "$hub/x"}}, "hub's own"),
    ({"name": "c", "terms": {"prefixes": ["/"], "dead_letters": "$store/s/changes/x"}}, "hub's own"),
    ({"name": "c", "terms": {"prefixes": ["/"], "dead_letters": "/dead"}}, "would receive them"),
    (5, "expected a map like name"),
    ({"name": "there", "terms": {"prefixes": ["/b"]}}, "remove it first"),
]
REFUSED_COMMITS = [
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
]


async def test_refused(path: Path) -> None:
    bench = await filled(path)
    asker = Asker(bench)
    for fields, text in REFUSED_COMMITS:
        status, reason = await asker.ask("/commit", {"name": "q", "prefixes": ["/a"], "position": 1} | fields)
        assert (status, text in reason) == (Status.FAILED, True), reason
    assert await asker.ask("", None) == []
    for terms in ({}, {"redeliver_s": 5.0}):
        await asker.join("there", "/a", terms=terms)
    for value, text in REFUSED:
        status, reason = await asker.ask("/join", value)
        assert (status, text in reason) == (Status.FAILED, True), reason
    (one,) = bench.journal.consumers.statistics().each
    assert one.members == 2
    await bench.journal.stop()


async def test_a_slow_member_bounds_what_is_read(path: Path) -> None:
    bench = Bench(path, consumer_messages=10)
    asker = Asker(bench)
    member = await asker.join(messages=1_000)
    bench.publish(*range(100))
    got: list[int] = []
    while len(got) < 100:
        rows = await asker.take(member)
        assert (await bench.row())["held"] <= 10
        got += [value for _, value in rows]
        await asker.done(member, *(offset for offset, _ in rows))
    assert got == list(range(100))
    await eventually(lambda: bench.journal.consumers.statistics().each[0].held == 0)
    await eventually(lambda: bench.turn.core.memory.accounts["consumers"].size_bytes == 0)
    await bench.journal.stop()


async def test_another_journal_makes_all_begin_anew(path: Path) -> None:
    bench = Bench(path)
    await Asker(bench).join()
    await bench.journal.stop()
    for segment in await asyncio.to_thread(segments, path):
        await asyncio.to_thread(segment.unlink)
    again = Bench(path)
    assert again.journal.consumers.statistics().each == []
    await again.journal.stop()


_POLICY = read_policy(
    {
        "roles": {"reader": {"journal": ["/app"], "publish": ["/dead"]}, "stranger": {"subscribe": ["/app"]}},
        "users": {"alice": ["reader"], "bob": ["reader"], "eve": ["stranger"]},
    },
    "policy.toml",
)


async def test_who_may_read_the_journal_may_consume_it(bench: Bench) -> None:
    services = bench.turn.core.requests.hub_services
    judged = [services.judges_itself(b"$hub/" + name) for name in (b"consumers/join", b"consumers", b"who")]
    assert judged == [True, False, False]
    bench.turn.core.authority.adopt(_POLICY)
    bench.publish(1, topic="/app/x")
    alice, bob, eve = (Asker(bench, _POLICY.rights(name)) for name in ("alice", "bob", "eve"))
    for asker, terms in ((eve, {"prefixes": ["/app/"]}), (alice, {"prefixes": ["/"]})):
        status, text = await asker.ask("/join", {"name": "c", "terms": terms})
        assert status is Status.NOT_ALLOWED
        assert "journal" in text
        assert (await asker.ask("/commit", {"name": "q", **terms, "position": 0}))[0] is Status.NOT_ALLOWED
    terms = {"prefixes": ["/app/"], "dead_letters": "/other"}
    status, text = await alice.ask("/join", {"name": "c", "terms": terms})
    assert (status, "publish" in text) == (Status.NOT_ALLOWED, True)
    a, b = await alice.join("c", "/app/"), await bob.join("c", "/app/")
    assert await alice.take(a) == await bob.take(b) == [(0, 1)]
    names = [one.name for one in bench.journal.consumers.statistics().each]
    assert names == ["alice/c", "bob/c"]
    assert await bob.ask("/remove", {"name": "alice/c"}) == (Status.FAILED, ANY)


async def test_limits(path: Path) -> None:
    bench = Bench(path, consumers=3, user_consumers=2)
    bench.turn.core.authority.adopt(_POLICY)
    alice, bob = (Asker(bench, _POLICY.rights(name)) for name in ("alice", "bob"))
    member = await alice.join("c", "/app/")
    commit = {"prefixes": ["/app/"], "position": 0}
    assert await alice.ask("/commit", {"name": "q", **commit}) is None
    mine = "there are 2 consumers of user 'alice', the limit is 2 (journal.user_consumers)"
    assert await alice.ask("/join", {"name": "d", "terms": {"prefixes": ["/app/"]}}) == (Status.FAILED, mine)
    assert await alice.ask("/commit", {"name": "r", **commit}) == (Status.FAILED, mine)
    await bob.join("c", "/app/")
    everybodys = "there are 3 consumers, the limit is 3 (journal.consumers)"
    assert await bob.ask("/join", {"name": "d", "terms": {"prefixes": ["/app/"]}}) == (Status.FAILED, everybodys)
    assert await bob.ask("/commit", {"name": "r", **commit}) == (Status.FAILED, everybodys)
    assert await alice.ask("/commit", {"name": "q", **commit}) is None
    await alice.join("c", "/app/")
    waiting = asyncio.ensure_future(alice.take(member))
    await asyncio.sleep(0)
    assert await alice.ask("/remove", {"name": "c"}) is True
    assert "was removed" in (await waiting)[1]
    assert await alice.ask("/remove", {"name": "c"}) is False
    await alice.join("d", "/app/")
    await bench.journal.stop()
    again = Bench(path)
    assert sorted(one.name for one in again.journal.consumers.statistics().each) == ["alice/d", "alice/q", "bob/c"]
    await again.journal.stop()


async def test_who_may_read_no_more_is_no_member_any_more(bench: Bench) -> None:
    bench.turn.core.authority.adopt(_POLICY)
    alice = Asker(bench, _POLICY.rights("alice"))
    member = await alice.join("c", "/app/")
    waiting = asyncio.ensure_future(alice.take(member))
    await asyncio.sleep(0)
    alice.handler.rights = _POLICY.rights("eve")
    bench.publish(1, topic="/app/x")
    status, text = await waiting
    assert (status, "not granted any more" in text) == (Status.NOT_ALLOWED, True)
    await eventually(lambda: bench.journal.consumers.statistics().each[0].members == 0)


async def filled(path: Path, records: int = 3, **settings: Any) -> Bench:
    bench = Bench(path, **settings)
    bench.publish(*range(records))
    await eventually(lambda: bench.journal.recorder.committed == records)
    return bench


async def commit(asker: Asker, position: int, name: str = "q", *prefixes: str) -> Any:
    return await asker.ask("/commit", {"name": name, "prefixes": prefixes or ["/a"], "position": position})


async def test_a_query_has_a_lag_and_no_members(path: Path) -> None:
    bench = await filled(path)
    asker = Asker(bench)
    for position, lag in ((1, 2), (3, 0), (3, 0), (0, 3), (2, 1)):
        assert await commit(asker, position) is None
        row = await bench.row("q")
        assert (row["position"], row["lag"], row["members"], row["prefixes"]) == (position, lag, 0, ["/a"])
        assert 0 <= row["committed_s"] < 60
    assert await commit(asker, 3, "other", "/b") is None
    assert (await bench.row("other"))["prefixes"] == ["/b"]
    assert [await asker.ask("/remove", {"name": "other"}) for _ in range(2)] == [True, False]
    member = await asker.join("c")
    assert (await bench.row("c"))["committed_s"] is None
    status, text = await asker.ask("/join", {"name": "q", "terms": {"prefixes": ["/a"]}})
    assert (status, "is a query" in text) == (Status.FAILED, True)
    for _ in range(2):  # a slip of a name must not move a consumer beyond messages that it has not got
        status, text = await commit(asker, 1, "c")
        assert (status, "is shared by clients" in text) == (Status.FAILED, True)
        await asker.ask("/leave", {"member": member})
    assert await asker.ask("/remove", {"name": "c"}) is True
    await bench.journal.stop()
    bench = Bench(path)
    (row,) = await Asker(bench).ask("", None)
    assert (row["name"], row["position"], row["lag"]) == ("q", 2, 1)
    assert row["committed_s"] >= 0
    await bench.journal.stop()


async def test_one_that_is_not_heard_of_is_forgotten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1_000.0]
    monkeypatch.setattr(service_module, "time", SimpleNamespace(time=lambda: now_s[0]))
    bench = await filled(path)
    consumers, asker = bench.journal.consumers, Asker(bench)
    told = []
    monkeypatch.setattr(consumers, "announce", lambda name, fields: told.append((name, fields)))
    await commit(asker, 2, "gone")
    await commit(asker, 3, "stays")
    now_s[0] += FORGOTTEN_S
    await commit(asker, 3, "stays")
    consumers.tick()
    assert [one.name for one in consumers.statistics().each] == ["gone", "stays"]
    now_s[0] += 1.0
    consumers.tick()
    assert [one.name for one in consumers.statistics().each] == ["stays"]
    assert consumers.statistics().forgotten_total == 1
    assert told[-1] == ("gone", {"state": "forgotten", "position": 2})
    await commit(asker, 1, "stays")
    assert told[-1] == ("stays", {"state": "back", "from": 3, "to": 1})
    now_s[0] += 7.0
    await commit(asker, 1, "stays")
    await bench.journal.stop()
    now_s[0] -= 1.0  # the clock was set back
    again = Bench(path)
    (row,) = again.journal.consumers.statistics().each
    assert (row.name, row.position, row.lag, row.committed_s) == ("stays", 1, 2, 0.0)
    now_s[0] += 2.5
    (row,) = again.journal.consumers.statistics().each
    assert row.committed_s == 1.5
    await again.journal.stop()
