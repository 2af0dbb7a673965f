"""Requests to the journal over TCP: confirmations, FETCH, STAGE, COMMIT, and what becomes of them at an end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from hub.batch import Batch
from hub.errors import CloseCode, RejectedError
from hub.frame import FLAG_BATCH, FLAG_CONFIRM, HEADER_BYTES, KIND_MESSAGES, Frame, encode_frame, iterate_frames
from hub.quotas.quotas import Quotas
from hub.quotas.resource import Resource
from hub.routes import Route
from hub.settings.sections import JournalSettings, Limits
from peers.connections.connection import PUT_OFF, Connection
from peers.connections.tcp import WireFarSide
from peers.journal.forms import NARROWED_PATHS, Order, decode_order
from peers.journal.journal import Journal
from peers.journal.staging import Committed
from peers.journal.view import LARGE_FACTOR
from peers.node.audit import Audit
from peers.verbs.journal import FETCH_LIMIT_BYTES, FETCHES_LIMIT
from peers.verbs.verbs import Verbs
from peers.wire.control import Notice, decode_notice
from peers.wire.events import Confirmable
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.records import (
    Commit,
    Fetch,
    Stage,
    decode_fetch,
    decode_records,
    encode_commit,
    encode_fetch,
    encode_stage,
)
from peers.wire.session import Session
from tests.hub.fakes import Turn
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.settings import settings_of
from tests.journal.files import records


class FakeJournal:
    """Remembers what it was asked for; the test answers."""

    id = b"a journal"

    def __init__(self) -> None:
        self.confirmations: list[tuple[int, Callable[[int | RejectedError], None]]] = []
        self.fetches: list[tuple[Fetch, Callable[[Any], None]]] = []
        self.cancelled: list[int] = []
        self.staged: list[tuple[Stage, Callable[[RejectedError | None], None]]] = []
        self.commits: list[tuple[Commit, Callable[[Committed | RejectedError], None]]] = []
        self.at_once: Any = None

    def confirm(
        self,
        route: Route,
        batch: Batch,
        publish: Callable[[Batch], object],
        answer: Callable[[int | RejectedError], None],
    ) -> None:
        publish(batch)
        if not route.handlers:
            answer(RejectedError(CloseCode.NOT_ALLOWED, "not recorded here"))
        else:
            self.confirmations.append((batch.messages, answer))

    def fetch(self, fetch: Fetch, deliver: Callable[[Any], None], _: object = None) -> Callable[[], None]:
        if self.at_once is not None:
            deliver(self.at_once)
        else:
            self.fetches.append((fetch, deliver))
        return lambda: self.cancelled.append(fetch.request)

    def stage(self, _: object, stage: Stage, answer: Callable[[RejectedError | None], None]) -> None:
        self.staged.append((stage, answer))

    def commit(self, _: object, commit: Commit, answer: Callable[[Committed | RejectedError], None]) -> None:
        self.commits.append((commit, answer))


class Bench:
    """A client's requests, the journal, and what the client hears."""

    def __init__(self) -> None:
        self.turn = Turn()
        self.handler, _ = self.turn.join()
        _, self.outlet = self.turn.join("/a")
        self.journal = FakeJournal()
        self.session: Session[Route] = Session("hub", self.turn.core.routes, 1 << 20)
        self.said: list[Frame] = []
        self.node = SimpleNamespace(
            core=self.turn.core,
            audit=Audit(self.turn.core.own_events.announce, lambda: 1.0),
            journal=self.journal,
            rejected_messages=0,
            settings=SimpleNamespace(limits=Limits()),
        )
        self.far = WireFarSide(self.session, cast("Connection", self), 1 << 24)
        self.requests = Verbs(self.node, self.handler, self.far)  # type: ignore[arg-type]

    def write_later(self) -> None:
        self.said += iterate_frames(self.session.take_outgoing())

    def write(self, pieces: list[bytes]) -> None:
        self.write_later()
        self.said += iterate_frames(b"".join(pieces))

    def wait_for_reader(self) -> None:
        """Read on."""

    @property
    def notices(self) -> list[Notice]:
        said, self.said = [*iterate_frames(self.session.take_outgoing()), *self.said], []
        return [decode_notice(frame.body) for frame in said]

    def publish(self, *values: Any, topic: str = "/a") -> None:
        (frame,) = iterate_frames(Batch.of(topic, values).frames)
        self.requests.act(Confirmable(frame))
        self.turn.core.flush()

    def commit_all(self, offset: int) -> None:
        waiting, self.journal.confirmations[:] = list(self.journal.confirmations), []
        for messages, answer in waiting:
            answer(offset)
            offset += messages


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Confirmations.


def test_a_confirmation(bench: Bench) -> None:
    bench.publish(1, 2)
    assert bench.outlet.values == [1, 2]
    assert bench.notices == []
    bench.commit_all(7)
    assert bench.notices == [Notice("recorded", count=2, offset=7)]


def test_confirmations_in_the_order_of_the_messages(bench: Bench) -> None:
    bench.publish(1)
    bench.publish(2, topic="/nobody")
    bench.publish(3, topic="$hub/x")
    bench.publish(4)
    assert bench.notices == []
    bench.commit_all(7)
    first, second, third, fourth = bench.notices
    assert first == Notice("recorded", count=1, offset=7)
    assert second == Notice("unrecorded", count=1, code=1008, text="not recorded here")
    assert (third.kind, third.count, third.code) == ("unrecorded", 1, CloseCode.NOT_ALLOWED)
    assert fourth == Notice("recorded", count=1, offset=8)
    assert bench.node.rejected_messages == 1
    assert bench.outlet.values == [1, 4]


def test_a_refusal_with_nothing_before_it(bench: Bench) -> None:
    bench.publish(1, topic="/nobody")
    assert [notice.kind for notice in bench.notices] == ["unrecorded"]


def test_a_journal_that_fails(bench: Bench) -> None:
    bench.publish(1)
    bench.journal.confirmations[0][1](RejectedError(CloseCode.JOURNAL_FAILED, "full"))
    assert bench.notices == [Notice("unrecorded", count=1, code=4012, text="full")]


def test_confirmations_of_who_has_left(bench: Bench) -> None:
    bench.publish(1)
    bench.requests.close()
    bench.commit_all(0)
    assert bench.notices == []
    assert not bench.requests.journal.pending


# FETCH.


def test_fetching(bench: Bench) -> None:
    bench.requests.act(Fetch(5, 7))
    ((fetch, deliver),) = bench.journal.fetches
    assert (fetch.request, fetch.start) == (5, 7)
    deliver(bytearray(encode_frame(Kind.RECORDS, b"as it is")))
    assert bench.said == [Frame(Kind.RECORDS, 0, b"", b"as it is")]
    assert not bench.requests.journal.pending


def test_fetching_what_cannot_be_read(bench: Bench) -> None:
    bench.requests.act(Fetch(5))
    bench.journal.fetches[0][1](RejectedError(CloseCode.TRY_AGAIN_LATER, "busy"))
    bench.journal.at_once = RejectedError(CloseCode.NOT_ALLOWED, "none")
    bench.requests.act(Fetch(6))
    assert bench.notices == [
        Notice("error", request=5, code=1013, text="busy"),
        Notice("error", request=6, code=1008, text="none"),
    ]
    assert not bench.requests.journal.pending


def test_an_answer_for_which_its_user_has_no_room(bench: Bench) -> None:
    bench.handler.share = Quotas({Resource.QUEUED_BYTES: 1_000_000}).join("alice", frozenset())
    for request, size_bytes in enumerate((500_000, 1_000, 400_000), 5):
        bench.requests.act(Fetch(request))
        bench.journal.fetches[-1][1](bytearray(encode_frame(Kind.RECORDS, bytes(size_bytes))))
    assert [frame.kind for frame in bench.said] == [Kind.NOTICE, Kind.RECORDS, Kind.RECORDS]
    notice = decode_notice(bench.said[0].body)
    assert (notice.request, notice.code) == (5, CloseCode.TRY_AGAIN_LATER)
    assert "bytes waiting" in notice.text
    assert not bench.requests.journal.pending


def test_too_many_fetches(bench: Bench) -> None:
    for request in range(1, FETCHES_LIMIT + 2):
        bench.requests.act(Fetch(request))
    (notice,) = bench.notices
    assert (notice.request, notice.code) == (FETCHES_LIMIT + 1, CloseCode.TRY_AGAIN_LATER)
    bench.journal.fetches[3][1](bytearray(encode_frame(Kind.RECORDS, b"")))
    bench.requests.act(Fetch(1_000))
    assert len(bench.journal.fetches) == FETCHES_LIMIT + 1


def test_a_number_that_waits_already(bench: Bench) -> None:
    bench.requests.act(Fetch(1))
    bench.requests.act(Fetch(1))
    assert bench.notices[0].code == CloseCode.TRY_AGAIN_LATER
    assert len(bench.journal.fetches) == 1


@pytest.mark.parametrize(
    ("asked", "far_limit", "taken"),
    [
        (1 << 20, 1 << 24, 1 << 20),
        (1 << 62, 1 << 62, FETCH_LIMIT_BYTES),
        (0, 1 << 24, 0),
        (5, 1 << 24, 5),
        (1 << 20, 60_000, 9_000 - 24),
        (1 << 20, 1, 1),
    ],
)
def test_what_is_asked_for_fits(bench: Bench, asked: int, far_limit: int, taken: int) -> None:
    bench.far.frame_limit_bytes = far_limit
    bench.requests.act(Fetch(1, bytes=asked))
    ((fetch, _),) = bench.journal.fetches
    assert fetch.bytes == taken
    assert (LARGE_FACTOR + 1) * fetch.bytes <= max(far_limit, LARGE_FACTOR + 1)


def test_an_answer_that_the_far_side_does_not_take(bench: Bench) -> None:
    bench.far.frame_limit_bytes = 1000
    bench.requests.act(Fetch(5))
    bench.journal.fetches[0][1](bytearray(encode_frame(Kind.RECORDS, bytes(1001))))
    (notice,) = bench.notices
    assert (notice.request, notice.code) == (5, CloseCode.TOO_BIG)
    assert notice.text == "RECORDS of 1009 bytes with one record, the far side takes 1000: take larger frames"


def test_fetches_of_who_has_left(bench: Bench) -> None:
    bench.requests.act(Fetch(5))
    bench.requests.act(Fetch(6))
    bench.journal.fetches[0][1](RejectedError(CloseCode.TRY_AGAIN_LATER, "busy"))
    bench.requests.close()
    assert bench.journal.cancelled == [6]


# Rights.

POLICY = """
[roles.reader]
publish = ["/a"]
journal = { allow = ["/a", "/mail/{user}"], deny = ["/a/secret"] }
[users]
alice = ["reader"]
bob = []
"""


def restrict(bench: Bench, user: str, text: str = POLICY) -> None:
    policy = policy_of(text)
    bench.handler.rights = policy.rights(user)
    bench.turn.core.authority.adopt(policy)


@pytest.mark.parametrize(
    ("prefixes", "told"),
    [
        (("",), "journal '': not granted as a whole to user 'alice'; granted beneath: '/a/', '/mail/alice/'"),
        (("/a/b", "/a"), "journal '/a': not granted as a whole to user 'alice'; granted beneath: '/a/'"),
        (("/a/",), "journal '/a/': not granted as a whole to user 'alice': something beneath it is denied"),
        (("/a/secret/x",), "journal '/a/secret/x': not granted to user 'alice'"),
        (("/mail/bob/",), "journal '/mail/bob/': not granted to user 'alice'"),
        (("$hub/",), "journal '$hub/': not granted to user 'alice'"),
    ],
)
def test_history_of_what_is_not_granted(bench: Bench, prefixes: tuple[str, ...], told: str) -> None:
    restrict(bench, "alice")
    bench.requests.act(Fetch(5, prefixes=prefixes))
    assert bench.notices == [Notice("error", request=5, code=CloseCode.NOT_ALLOWED, text=told)]
    assert bench.journal.fetches == []


def test_history_of_what_is_granted(bench: Bench) -> None:
    restrict(bench, "alice")
    bench.requests.act(Fetch(5, prefixes=("/a/b", "/mail/alice/")))
    ((fetch, _),) = bench.journal.fetches
    assert type(fetch) is Fetch
    assert fetch.prefixes == ("/a/b", "/mail/alice/")


def test_narrowed_history(bench: Bench) -> None:
    restrict(bench, "alice")
    bench.handler.narrows = True
    bench.requests.act(Fetch(5, 7, prefixes=("", "/a")))
    ((fetch, _),) = bench.journal.fetches
    assert isinstance(fetch, Order)
    assert (fetch.request, fetch.start, fetch.prefixes, fetch.form) == (5, 7, ("", "/a"), "frame")
    (paths,) = fetch.granted
    assert set(paths) == {("/a", True), ("/a/secret", False), ("/mail/alice", True)}
    assert decode_order(encode_fetch(fetch)[HEADER_BYTES:]) == fetch


def test_narrowed_history_for_who_may_read_nothing(bench: Bench) -> None:
    restrict(bench, "bob")
    bench.handler.narrows = True
    bench.requests.act(Order(5, form="json"))
    assert not bench.journal.fetches
    (notice,) = bench.notices
    assert notice.text == "journal '': not granted to user 'bob'"


def test_narrowing_to_too_many_grants(bench: Bench) -> None:
    many = ", ".join(f'"/x/{number}"' for number in range(NARROWED_PATHS))
    restrict(bench, "alice", f'[roles.a]\njournal = [{many}]\n[users]\nalice = ["a"]')
    bench.handler.narrows = True
    bench.requests.act(Fetch(5))
    (notice,) = bench.notices
    assert notice.text == "journal: more than 1000 grants would have to be compared; ask for what is granted"


def test_how_far_the_journal_reaches(bench: Bench) -> None:
    restrict(bench, "alice")
    bench.requests.act(Fetch(5, bytes=0))
    assert len(bench.journal.fetches) == 1
    restrict(bench, "bob")
    bench.requests.act(Fetch(6, bytes=0))
    assert [notice.request for notice in bench.notices] == [6]


def test_a_client_cannot_say_itself_what_is_granted_to_it() -> None:
    order = Order(5, granted=(("*", True),))
    assert decode_fetch(encode_fetch(order)[HEADER_BYTES:]) == Fetch(5)


def test_rights_that_change_while_a_piece_is_read(bench: Bench) -> None:
    restrict(bench, "alice")
    bench.requests.act(Fetch(5, prefixes=("/a/b",), wait_ms=60_000))
    ((_, deliver),) = bench.journal.fetches
    restrict(bench, "bob")
    deliver(bytearray(encode_frame(Kind.RECORDS, b"secret")))
    assert [(notice.request, notice.code) for notice in bench.notices] == [(5, CloseCode.TRY_AGAIN_LATER)]


def test_confirmed_messages_that_are_not_granted(bench: Bench) -> None:
    restrict(bench, "alice")
    bench.publish(1)
    bench.publish(2, topic="/ab")
    bench.commit_all(7)
    first, second = bench.notices
    assert first == Notice("recorded", count=1, offset=7)
    text = "publish '/ab': not granted to user 'alice'"
    assert second == Notice("unrecorded", count=1, code=CloseCode.NOT_ALLOWED, text=text)
    assert bench.outlet.values == [1]
    assert bench.node.rejected_messages == 1


# STAGE and COMMIT.


def test_staging(bench: Bench) -> None:
    for request in (1, 2, 0, 0):
        bench.requests.act(Stage(request, "t", 0, b""))
    for (_, answer), error in zip(
        bench.journal.staged, [None, RejectedError(1013, "full"), None, RejectedError(1007, "bad")], strict=True
    ):
        answer(error)
    assert bench.notices == [
        Notice("confirmed", request=1),
        Notice("error", request=2, code=1013, text="full"),
        Notice("error", code=1007, text="bad"),
    ]


def test_committing(bench: Bench) -> None:
    for request in (1, 2, 3):
        bench.requests.act(Commit(request, "t"))
    outcomes = [Committed(7, 3, again=False), Committed(7, 3, again=True), RejectedError(4011, "not staged")]
    for (_, answer), outcome in zip(bench.journal.commits, outcomes, strict=True):
        answer(outcome)
    assert bench.notices == [
        Notice("confirmed", request=1, offset=7, count=3),
        Notice("confirmed", request=2, offset=7, count=3, again=True),
        Notice("error", request=3, code=4011, text="not staged"),
    ]


# Over sockets, with a real journal.

LIMITS: dict[str, Any] = {"ping_after_s": 3600.0}


@pytest.fixture
async def hub(start_hub: StartHub, tmp_path: Path) -> AsyncIterator[Hub]:
    hub = await start_hub(settings=settings_of(**LIMITS))
    defaults = JournalSettings(path=str(tmp_path / "journal"), commit_s=0.001, buffer_bytes=100_000)
    journal = Journal(hub.node.core, defaults, Limits())
    hub.node.journal = journal
    yield hub
    await journal.stop()


def confirmable(topic: str, *values: Any) -> bytes:
    (frame,) = iterate_frames(Batch.of(topic, values).frames)
    return encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags | FLAG_CONFIRM)


async def test_hello_names_the_journal(hub: Hub) -> None:
    client = await hub.raw()
    hello = await client.greet()
    assert (hello.journal, len(hello.journal)) == (hub.node.journal.id, 16)


async def test_everything_in_one_packet(hub: Hub) -> None:
    client = await hub.raw()
    frames = Batch.of("/b", [4, 5]).frames
    await client.send(
        Hello(protocol=1, role="client").encode(),
        confirmable("/a", 1, 2),
        confirmable("not recorded", 1),
        confirmable("/a", 3),
        encode_fetch(Fetch(1, end=3)),
        encode_stage(Stage(2, "t", 0, frames)),
        encode_commit(Commit(3, "t", "q", 0, [0])),
        encode_commit(Commit(4, "t", "q", 0, [0])),
    )
    assert (await client.frame()).kind == Kind.HELLO
    heard: dict[int, Any] = {}
    recorded = []
    while len(heard) < 4 or len(recorded) < 3:
        frame = await client.frame()
        if frame.kind == Kind.RECORDS:
            heard[1] = [record.body for record in records(decode_records(frame.body).blocks)]
        else:
            notice = decode_notice(frame.body)
            if notice.request:
                heard[notice.request] = notice
            else:
                recorded.append((notice.kind, notice.offset, notice.count))
    assert recorded == [("recorded", 0, 2), ("unrecorded", None, 1), ("recorded", 2, 1)]
    assert heard[1] == [b"\1", b"\2", b"\3"]
    assert heard[2] == Notice("confirmed", request=2)
    assert heard[3] == Notice("confirmed", request=3, offset=3, count=2)
    assert heard[4] == Notice("confirmed", request=4, offset=3, count=2, again=True)


@pytest.mark.parametrize(
    "frame",
    [
        encode_frame(Kind.FETCH, msgspec.msgpack.encode({"request": 9, "start": -1})),
        encode_frame(Kind.STAGE, b"\0\0\0\x09\0\0"),
        encode_frame(Kind.COMMIT, msgspec.msgpack.encode({"request": 9})),
    ],
)
async def test_a_request_that_cannot_be_read(hub: Hub, frame: bytes) -> None:
    client = await hub.client()
    await client.send(frame)
    notice = await client.notice()
    assert (notice.kind, notice.request, notice.code) == ("error", 9, CloseCode.BAD_DATA)
    assert await client.ping() == []


async def test_a_malformed_batch_with_confirm(hub: Hub) -> None:
    client = await hub.client()
    await client.send(encode_frame(KIND_MESSAGES, b"\0\0\0\7x", key=b"/a", flags=FLAG_BATCH | FLAG_CONFIRM))
    assert (await client.notice()).code == CloseCode.BAD_DATA
    await client.send(encode_frame(KIND_MESSAGES, b"\0\0\0\3\xc1\xc1\xc1", key=b"/a", flags=FLAG_BATCH | FLAG_CONFIRM))
    assert await client.notice() == Notice("recorded", count=3, offset=0)
    await client.send(encode_fetch(Fetch(1)))
    found = records(decode_records((await client.frame()).body).blocks)
    assert [record.body for record in found] == [b"\xc1\xc1\xc1", b"", b""]


async def test_the_largest_message(hub: Hub) -> None:
    client = await hub.client(frame=(16 << 20) + 65_536)
    large = b"x" * ((16 << 20) - 5)
    await client.send(confirmable("/a", 1), confirmable("/a", large), confirmable("/a", 2))
    assert [(await client.notice()).offset for _ in range(3)] == [0, 1, 2]
    start, sizes = 0, []
    while start < 3:
        await client.send(encode_fetch(Fetch(start + 1, start=start)))
        frame = await client.frame()
        assert frame.kind == Kind.RECORDS
        found = decode_records(frame.body)
        sizes += [len(record.body) for record in records(found.blocks)]
        start = found.next
    assert sizes == [1, 16 << 20, 1]


async def test_small_frames(hub: Hub) -> None:
    client = await hub.client(frame=20_000)
    values = [b"x" * 1000] * 100
    await client.send(confirmable("/a", *values), confirmable("/a", b"x" * 25_000))
    assert [(await client.notice()).offset for _ in range(2)] == [0, 100]
    start, count = 0, 0
    while start < 100:
        await client.send(encode_fetch(Fetch(start + 1, start=start, end=100)))
        found = decode_records((await client.frame()).body)
        count += len(records(found.blocks))
        start = found.next
    assert count == 100
    await client.send(encode_fetch(Fetch(1, start=100)))
    notice = await client.notice()
    assert (notice.code, notice.request) == (CloseCode.TOO_BIG, 1)


async def test_who_does_not_read_is_not_read_on(hub: Hub) -> None:
    writer = await hub.client()
    await writer.send(*[confirmable("/a", b"x" * 60_000) for _ in range(30)])
    for _ in range(30):
        await writer.notice()
    client = await hub.client(receive_bytes=4096, name="greedy")
    connection = hub.connections[-1]
    sent = FETCHES_LIMIT + 10
    await client.send(*[encode_fetch(Fetch(number + 1)) for number in range(sent)])
    await eventually(lambda: not connection.transport.is_reading())
    await eventually(lambda: not connection.conversation.verbs.journal.pending)  # type: ignore[attr-defined]
    assert connection.transport.get_write_buffer_size() < 128 << 20
    answered = 0
    while answered < sent:
        await client.frame()
        answered += 1
    assert await client.ping() == []


async def test_who_feeds_a_journal_that_is_behind_is_not_read(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    journal: Any = hub.node.journal
    held: list[Any] = []
    monkeypatch.setattr(journal._recorder, "_submit", held.append)
    publisher = await hub.client(name="publisher")
    feeding = hub.connections[-1]
    listener = await hub.client("other")
    others = await hub.client()
    await publisher.send(b"".join(Batch.of(f"/{number}", [bytes(50)]).frames for number in range(3000)))
    await eventually(lambda: journal.is_behind and not feeding.unread_for & PUT_OFF)
    assert not feeding.transport.is_reading()
    await others.publish("other", 1)
    assert await listener.values(1) == [("other", 1)]
    feeding.resume_writing()
    assert not feeding.transport.is_reading()
    monkeypatch.setattr(journal._recorder, "_submit", journal._writer.submit)
    for entry in held:
        journal._writer.submit(entry)
    assert await publisher.ping() == []
    await eventually(lambda: journal.statistics().recorder.committed == 3000)
    assert journal.statistics().recorder.pauses_total >= 1


async def test_who_is_held_back_is_not_given_up(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    journal: Any = hub.node.journal
    held: list[Any] = []
    monkeypatch.setattr(journal._recorder, "_submit", held.append)
    publisher = await hub.client(name="publisher")
    feeding = hub.connections[-1]
    await publisher.publish("/a", bytes(200_000))
    await eventually(lambda: journal.is_behind)
    for _ in range(3):
        hub.later(3 * 3600.0)
        assert feeding in hub.node.connections
    feeding.abort()
    await eventually(lambda: feeding not in hub.node.connections)
    assert not journal._recorder._room
    monkeypatch.setattr(journal._recorder, "_submit", journal._writer.submit)
    for entry in held:
        journal._writer.submit(entry)


async def test_a_fetch_that_is_given_up(hub: Hub) -> None:
    client = await hub.client()
    for _ in range(FETCHES_LIMIT):
        await client.send(encode_fetch(Fetch(1, wait_ms=60_000)))
    await client.send(encode_fetch(Fetch(1, bytes=0)), confirmable("/a", 1))
    kinds = {(await client.frame()).kind for _ in range(2)}
    assert kinds == {Kind.RECORDS, Kind.NOTICE}
    assert hub.node.journal.statistics().fetches == 0  # type: ignore[union-attr]


async def test_who_leaves_while_it_waits(hub: Hub) -> None:
    client = await hub.client()
    await client.send(*[encode_fetch(Fetch(number, wait_ms=60_000)) for number in range(1, 17)])
    await eventually(lambda: hub.node.journal.statistics().fetches == 16)  # type: ignore[union-attr]
    client.close()
    await eventually(lambda: hub.node.journal.statistics().fetches == 0)  # type: ignore[union-attr]
