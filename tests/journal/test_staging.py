"""What writers stage: committed once, all of it or nothing, a turn's share at a time, within its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hub.errors import CloseCode, JournalUnavailableError, RejectedError
from hub.journal.segment import Write
from hub.messages.batch import Batch, decode_values
from hub.messages.frame import FLAG_CONFIRM, KIND_MESSAGES, encode_frame, iterate_frames
from hub.quotas import QuotaLimits, Resource, SetLimits
from peers.journal import staging as staging_module
from peers.journal.recorder import Entry, Probe, Progress, Recorder
from peers.journal.staging import Committed, Staging
from peers.wire.records import Commit, Stage
from tests.hub.fakes import Turn
from tests.hub.rights.hall import policy_of

pytestmark = pytest.mark.usefixtures("uncaught")

Outcome = Committed | RejectedError | None


def frames(*values: Any, topic: str = "/a") -> bytes:
    return b"".join(Batch.of(topic, [value]).frames for value in values)


class Bench:
    def __init__(self, *, limit_bytes: int = 1 << 23, writes: list[Write] | None = None) -> None:
        self.turn = Turn()
        self.entries: list[Entry] = []
        self.recorder = Recorder(
            self.turn.core, ("/",), self._submit, buffer_bytes=1 << 30, at=Progress(0, 0, 0), clock_us=lambda: 5
        )
        self.turns: list[Callable[[], object]] = []
        self.staging = Staging(
            self.turn.core,
            self.recorder,
            limit_bytes=limit_bytes,
            kept_s=10.0,
            frame_limit_bytes=1 << 20,
            writes=writes or [],
            after_turn=self.turns.append,
        )
        self.writer, _ = self.turn.join()
        self.subscriber, self.outlet = self.turn.join("/")
        self.told: list[Outcome] = []
        self.next = 0

    def _submit(self, entry: Entry | Probe) -> None:
        if isinstance(entry, Entry):
            self.entries.append(entry)

    def stage(self, transaction: str, part: int, data: bytes, now_s: float = 0.0) -> None:
        self.staging.stage(self.writer, Stage(1, transaction, part, data), now_s, self.told.append)

    def commit(self, transaction: str, *parts: int, **fields: Any) -> None:
        self.staging.commit(self.writer, Commit(1, transaction, parts=list(parts), **fields), self.told.append)

    def batch(self, number: int, *values: Any) -> None:
        self.stage("t", 0, frames(*values))
        self.commit("t", 0, query="q", batch=number)
        self.turns_pass()

    def figures(self) -> tuple[int, ...]:
        one = self.staging
        return len(one), one.size_bytes, one.committed_total, one.repeated_total, one.dropped_total

    def one_turn(self) -> bool:
        turns, self.turns[:] = list(self.turns), []
        for act in turns:
            act()
        self.turn.core.flush()
        return bool(turns)

    def turns_pass(self) -> None:
        while self.one_turn():
            pass

    async def write(self) -> list[Entry]:
        done, size = list(self.entries), sum(entry.size_bytes for entry in self.entries)
        self.entries.clear()
        self.next = self.recorder.position() or 0
        self.recorder.on_committed(Progress(0, self.next, 0, len(done), size))
        await asyncio.sleep(0)
        return done

    async def fail(self) -> None:
        self.entries.clear()
        self.recorder.on_failed(JournalUnavailableError("full"), self.next)
        await asyncio.sleep(0)

    async def recover(self, *writes: Write) -> None:
        self.recorder.on_recovered(self.recorder.epoch, Progress(0, self.next, 0), list(writes))
        await asyncio.sleep(0)

    def refusals(self) -> list[tuple[int, str]]:
        return [(error.code, error.text) for error in self.told if isinstance(error, RejectedError)]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_a_commit(bench: Bench) -> None:
    bench.stage("t", 0, frames(1, 2))
    bench.stage("t", 7, frames(5))
    bench.stage("t", 3, frames(9))
    bench.stage("t", 0, frames(3))
    bench.turns_pass()
    assert (bench.told, bench.outlet.values, bench.entries, len(bench.staging)) == ([None] * 4, [], [], 1)
    bench.commit("t", 7, 0, query="q", batch=4)
    bench.turns_pass()
    assert bench.told == [None] * 4
    assert bench.outlet.values == [5, 1, 2, 3]
    entries = await bench.write()
    assert bench.told[4:] == [Committed(0, 4, again=False)]
    assert [entry.opens for entry in entries if entry.opens] == [1, -1]
    assert entries[0].opens == 1
    assert entries[-1].write == Write("q", 4, 0, 4)
    assert bench.figures() == (0, 0, 1, 0, 0)


async def test_topics_that_alternate(bench: Bench) -> None:
    _, other = bench.turn.join("/b")
    data = b"".join(frames(number, topic=("/a", "/b")[number % 2]) for number in range(10))
    bench.stage("t", 0, data + frames(10))
    bench.commit("t", 0)
    bench.turns_pass()
    assert other.values == [1, 3, 5, 7, 9]
    assert bench.outlet.values == list(range(11))
    entries = await bench.write()
    recorded = b"".join(entry.frames for entry in entries)
    assert [value for frame in iterate_frames(recorded) for value in decode_values(frame)] == list(range(11))
    assert bench.told == [None, Committed(0, 11, again=False)]


async def test_a_batch_is_committed_once(bench: Bench) -> None:
    bench.batch(4, 1, 2)
    bench.commit("t", 0, query="q", batch=4)
    bench.turns_pass()
    assert bench.told == [None]
    await bench.write()
    assert bench.told == [None, Committed(0, 2, again=False), Committed(0, 2, again=True)]
    bench.told.clear()
    bench.stage("u", 0, frames(1, 2))
    bench.commit("u", 0, query="q", batch=4)
    bench.stage("v", 0, frames(0))
    bench.commit("v", 0, query="q", batch=3)
    bench.commit("u", 0, query="q", batch=4)
    bench.turns_pass()
    again, before = Committed(0, 2, again=True), Committed(0, 0, again=True)
    assert bench.told == [None, again, None, before, again]
    assert (bench.outlet.values, bench.figures()) == ([1, 2], (0, 0, 1, 4, 0))


async def test_writers_are_forgotten_where_there_are_too_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "WRITERS_LIMIT", 2)
    for query in ("q", "r", "q", "s"):
        bench.commit("t", query=query, batch=len(bench.told))
        bench.turns_pass()
        await bench.write()
    assert list(bench.staging._writes) == list(bench.staging._on_disk) == ["q", "s"]


async def test_a_failure_on_the_way_to_the_disk(bench: Bench) -> None:
    bench.batch(4, 1)
    await bench.write()
    for batch in (5, 6):
        bench.stage("t", 0, frames(batch))
        bench.commit("t", 0, query="q", batch=batch)
    bench.turns_pass()
    bench.told.clear()
    await bench.fail()
    assert bench.refusals() == [(4012, "not recorded: full")] * 2
    assert bench.figures() == (0, 0, 1, 0, 2)
    await bench.recover(Write("q", 4, 0, 1))
    bench.told.clear()
    bench.batch(5, 5)
    await bench.write()
    assert bench.told == [None, Committed(1, 1, again=False)]


async def test_what_a_failed_commit_has_left(bench: Bench) -> None:
    """It is found once the journal is read again; until then each COMMIT is refused, also one that is a repetition."""
    bench.batch(5, 1)
    for _ in range(2):
        await bench.fail()
        bench.batch(5, 1)
    assert bench.refusals() == [(4012, "not recorded: full")] * 3
    await bench.recover(Write("q", 5, 0, 1))
    bench.told.clear()
    bench.batch(5, 1)
    assert bench.told == [None, Committed(0, 1, again=True)]
    assert bench.outlet.values == [1]
    await bench.fail()
    bench.batch(5, 1)
    assert bench.refusals() == [(4012, "not recorded: full")]


async def test_a_failure_in_the_middle(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "_TURN_COST", 1)
    for part in range(5):
        bench.stage("t", part, frames(part))
    bench.turns_pass()
    bench.commit("t", 0, 1, 2, 3, 4, query="q", batch=0)
    bench.one_turn()
    bench.one_turn()
    assert bench.outlet.values == [0, 1]
    await bench.fail()
    await bench.recover()
    bench.turns_pass()
    assert bench.outlet.values == [0, 1]
    assert bench.refusals() == [(4012, "not recorded: full")]
    assert bench.entries == []
    assert bench.figures() == (0, 0, 0, 0, 1)


async def test_a_bug_does_not_keep_others_waiting(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.stage("t", 0, frames(1))
    bench.stage("t", 1, frames(2))
    bench.turns_pass()
    publish = bench.turn.core.publish
    calls: list[int] = []

    def fail_once(*values: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("oops")
        publish(*values)

    monkeypatch.setattr(bench.turn.core, "publish", fail_once)
    bench.commit("t", 0, 1, query="q", batch=0)
    bench.stage("u", 0, frames(3))
    bench.commit("u", 0, query="q", batch=1)
    bench.turns_pass()
    entries = await bench.write()
    assert [entry.opens for entry in entries if entry.opens] == [1, -1, 1, -1]
    assert bench.refusals() == [(4012, "a bug of the hub, please report it")]
    assert bench.told[-1] == Committed(1, 1, again=False)


@pytest.mark.parametrize(
    ("parts", "text"),
    [((0, 1), "part 1 of transaction 't' was not staged, or was dropped"), ((0, 0), "a part is named twice")],
)
async def test_parts_that_cannot_be(bench: Bench, parts: tuple[int, ...], text: str) -> None:
    bench.stage("t", 0, frames(1))
    bench.commit("t", *parts)
    bench.turns_pass()
    ((code, said),) = bench.refusals()
    assert text in said
    assert code == (CloseCode.GONE if "staged" in text else CloseCode.BAD_DATA)
    assert bench.figures() == (0, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (frames(1)[:-1], 1007, "the last frame is not whole"),
        (b"\0\0\0\1\2\0", 1007, "the last frame is not whole"),
        (frames(1, topic="other"), 1008, "a topic that is not recorded here"),
        (frames(1) + frames(2, topic="other"), 1008, "a topic that is not recorded here"),
        (frames(1, topic="$hub/x"), 1008, "is the hub's own"),
        (encode_frame(KIND_MESSAGES, b"\1", key=b"/\xff"), 1007, "UTF-8"),
        (encode_frame(KIND_MESSAGES, b"\1", key=b"/a", flags=FLAG_CONFIRM), 1007, "without CONFIRM"),
        (encode_frame(KIND_MESSAGES, b"\0\0\0\0", key=b"/a", flags=1), 1007, "BATCH"),
        (encode_frame(10, b"\1"), 1007, "MESSAGES frames without CONFIRM"),
        (encode_frame(KIND_MESSAGES, bytes(1 << 21), key=b"/a"), 1009, "limit"),
    ],
)
async def test_what_is_no_message_to_be_recorded(bench: Bench, data: bytes, code: int, text: str) -> None:
    bench.stage("t", 0, data)
    bench.turns_pass()
    ((said, reason),) = bench.refusals()
    assert said == code
    assert text in reason
    assert bench.figures()[:2] == (0, 0)


async def test_a_query_that_aborts(bench: Bench) -> None:
    bench.stage("t", 0, frames(1))
    for _ in range(2):
        bench.commit("t", abort=True)
    bench.turns_pass()
    assert bench.told == [None, Committed(0, 0, again=False), Committed(0, 0, again=False)]
    assert (bench.figures(), bench.outlet.values) == ((0, 0, 0, 0, 1), [])
    bench.told.clear()
    bench.commit("t", query="q", batch=0)
    for _ in range(2):
        bench.stage("t", 0, frames(1))
        bench.commit("t", 0)
    bench.turns_pass()
    entries = await bench.write()
    assert [entry.write for entry in entries if entry.opens < 0] == [Write("q", 0, 0, 0), None, None]
    committed = [Committed(at, count, again=False) for at, count in ((0, 0), (0, 1), (1, 1))]
    assert bench.told == [None, None, *committed]


async def test_sweeping(bench: Bench) -> None:
    for name, now_s in (("a", 0.0), ("b", 1.0), ("c", 2.0), ("a", 5.0)):
        bench.stage(name, 0, frames(1), now_s)
    bench.turns_pass()
    assert bench.staging.sweep(10.0) == 0
    assert bench.staging.sweep(12.5) == 2
    assert bench.figures()[0] == 1
    bench.commit("b", 0)
    bench.turns_pass()
    assert bench.refusals()[0][0] == CloseCode.GONE
    assert bench.staging.sweep(100.0) == 1
    assert bench.figures() == (0, 0, 0, 0, 3)


async def test_what_waits_is_limited(bench: Bench) -> None:
    bench = Bench(limit_bytes=5000)
    data = frames(b"x" * 1000)
    for part in range(3):
        bench.stage("t", part, data)
    ((code, text),) = bench.refusals()
    assert code == CloseCode.TRY_AGAIN_LATER
    assert "over the limit of 5000: commit smaller batches, or raise journal.staged_bytes" in text
    bench.commit("t", 0)
    bench.turns_pass()
    bench.stage("u", 0, data)
    assert len(bench.refusals()) == 2
    await bench.write()
    assert bench.figures()[:2] == (0, 0)
    bench.stage("u", 0, data)
    bench.stage("u", 1, data)
    assert len(bench.refusals()) == 2


async def test_what_a_user_stages_is_charged_to_him(bench: Bench) -> None:
    quotas = bench.turn.core.quotas
    quotas.adopt(QuotaLimits(users={"alice": SetLimits({Resource.STAGED_BYTES: 10_000})}))
    bench.writer.share = quotas.join("alice", frozenset())
    staged = bench.writer.share[Resource.STAGED_BYTES]
    for transaction in ("a", "b", "c"):
        bench.stage(transaction, 0, frames(b"x" * 2000))
    assert 9000 < staged.held <= 10_000
    bench.stage("d", 0, frames(b"x"))
    refused = bench.told.pop()
    assert isinstance(refused, RejectedError)
    assert refused.code == CloseCode.TRY_AGAIN_LATER
    assert refused.text.startswith(f"user alice has {staged.held} bytes staged, ")
    bench.turns_pass()
    each = staged.held // 3
    bench.commit("a", 0)
    bench.turns_pass()
    assert staged.held == 3 * each
    await bench.write()
    assert staged.held == 2 * each
    bench.commit("b", abort=True)
    bench.turns_pass()
    assert staged.held == each
    bench.stage("c", 1, b"nothing that could be a frame")
    bench.turns_pass()
    assert staged.held == each
    bench.staging.sweep(1e6)
    assert staged.held == 0


async def test_a_piece_of_somebody_who_was_not_charged(bench: Bench) -> None:
    share = bench.turn.core.quotas.join("alice", frozenset())
    bench.stage("a", 0, frames(b"x" * 2000))
    bench.turns_pass()
    bench.writer.share = share
    bench.stage("a", 1, frames(b"x" * 3000))
    assert share[Resource.STAGED_BYTES].held > 3000
    bench.turns_pass()
    assert share[Resource.STAGED_BYTES].held == 0
    bench.commit("a", 0, 1)
    bench.turns_pass()
    await bench.write()
    assert bench.staging.size_bytes == 0
    assert share[Resource.STAGED_BYTES].held == 0


async def test_commits_that_wait_are_limited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "COMMITS_LIMIT_BYTES", 10_000)
    for number in range(10):
        bench.commit(f"t{number}", *range(100), abort=True)
    assert bench.refusals() == [(1013, "too many COMMITs wait; try again")] * 9
    bench.turns_pass()
    bench.commit("t", abort=True)
    assert len(bench.refusals()) == 9
    bench.turns_pass()
    assert bench.staging._commits_bytes == 0


async def test_a_turn_is_short(bench: Bench) -> None:
    bench.stage("t", 0, b"".join(frames(1, topic=f"/{number}") for number in range(3000)))
    turns = 0
    while bench.one_turn():
        turns += 1
    assert turns >= 3
    for part in (1, 2, 3):
        bench.stage("t", part, b"".join(frames(b"x" * 110_000) for _ in range(5)))
    bench.turns_pass()
    bench.commit("t", 1, 2, 3)
    assert bench.one_turn()
    assert len(bench.outlet.values) == 10
    bench.turns_pass()
    assert len(bench.outlet.values) == 15


async def test_the_writer_may_go_before_its_commit_is_done(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "_TURN_COST", 1)
    bench.stage("t", 0, frames(1, 2, 3))
    bench.turns_pass()
    bench.commit("t", 0, query="q", batch=0)
    bench.turn.core.detach(bench.writer, "gone")
    bench.turns_pass()
    await bench.write()
    assert bench.outlet.values == [1, 2, 3]
    assert bench.told[-1] == Committed(0, 3, again=False)


POLICY = """
[roles.writer]
publish = { allow = ["/a"], deny = ["/a/secret"] }
[users]
alice = ["writer"]
bob = ["writer"]
"""


def topics_of(*topics: str) -> bytes:
    return b"".join(Batch.of(topic, [topic]).frames for topic in topics)


@pytest.fixture
async def guarded(bench: Bench) -> Bench:
    policy = policy_of(POLICY)
    bench.turn.core.authority.adopt(policy)
    bench.writer.rights = policy.rights("alice")
    return bench


async def test_what_was_staged_under_other_rights_is_checked_again(guarded: Bench) -> None:
    guarded.stage("t", 0, topics_of("/a/1", "/a/2"))
    guarded.turns_pass()
    policy = policy_of(POLICY.replace('"/a/secret"', '"/a/2"'))
    guarded.writer.rights = policy.rights("alice")
    guarded.turn.core.authority.adopt(policy)
    guarded.commit("t", 0)
    guarded.turns_pass()
    assert [text for _, text in guarded.refusals()] == ["publish '/a/2': not granted to user 'alice'"]
    assert guarded.outlet.values == []
    assert guarded.staging.size_bytes == 0


async def test_a_transaction_belongs_to_its_user(guarded: Bench) -> None:
    policy = guarded.turn.core.authority.policy
    assert policy is not None
    alice = policy.rights("alice")
    guarded.stage("t", 0, topics_of("/a/1"))
    guarded.turns_pass()
    guarded.writer.rights = policy.rights("bob")
    guarded.stage("t", 0, topics_of("/a/2"))
    guarded.commit("t", 0)
    guarded.commit("t", abort=True)
    guarded.turns_pass()
    assert [text for _, text in guarded.refusals()] == ["transaction 't' is another user's"] * 3
    guarded.writer.rights = alice
    guarded.commit("t", 0)
    guarded.turns_pass()
    assert guarded.outlet.values == ["/a/1"]
    guarded.stage("u", 0, topics_of("/a/3"))
    guarded.turns_pass()
    guarded.writer.rights = None
    guarded.commit("u", 0)
    guarded.turns_pass()
    assert guarded.outlet.values == ["/a/1", "/a/3"]
    guarded.stage("v", 0, topics_of("/a/4"))
    guarded.turns_pass()
    guarded.writer.rights = alice
    guarded.commit("v", 0)
    guarded.turns_pass()
    assert guarded.refusals()[-1][1] == "transaction 'v' is another user's"


async def test_queries_belong_to_their_users(guarded: Bench) -> None:
    policy = guarded.turn.core.authority.policy
    assert policy is not None
    for user in ("alice", "bob", "alice"):
        guarded.writer.rights = policy.rights(user)
        guarded.stage("t", 0, topics_of(f"/a/{user}"))
        guarded.commit("t", 0, query="q", batch=4)
        guarded.turns_pass()
        await guarded.write()
        guarded.turns_pass()
    assert guarded.refusals() == []
    assert guarded.outlet.values == ["/a/alice", "/a/bob"]
    answers = [answer for answer in guarded.told if isinstance(answer, Committed)]
    assert answers == [Committed(0, 1, again=False), Committed(1, 1, again=False), Committed(0, 1, again=True)]
    guarded.commit("t", query="r", batch=4)
    guarded.turns_pass()
    assert [entry.write for entry in await guarded.write() if entry.write] == [Write("alice/r", 4, 2, 2)]
