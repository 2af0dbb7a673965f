"""What is recorded: confirmations, pieces that are fetched, transactions, consumers and stores, over each transport."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from hub.errors import CloseCode, JournalUnavailableError, RejectedError
from hub.messages.batch import Batch
from hub.messages.frame import encode_frame
from hub.policy.language import read_policy
from hub.quotas import Quotas, Resource
from hub.settings.settings import Settings, StoresSettings
from peers.commands.commands import FETCH_LIMIT_BYTES, FETCHES_LIMIT
from peers.journal.view import LARGE_FACTOR
from peers.wire.kinds import Kind
from tests.commands.conftest import Place, StartPlace
from tests.commands.talkers import FRAMES, except_on, talker
from tests.connections.rights.conftest import recognise
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually, settle
from tests.hubs.slow_journal import SlowJournal

EXCEPT_ON = {"http": "follows a journal as a stream of events; see connections/http"}
NO_TRANSACTIONS = dict.fromkeys(("json", "msgpack"), "has no transactions: they are for Spark")

Recording = Callable[..., Awaitable[Place]]


@pytest.fixture
def record(start: StartPlace) -> Recording:

    async def begin(*messages: tuple[str, Any], topics: tuple[str, ...] = ("/",), **journal: Any) -> Place:
        place = await start(topics=topics, **journal)
        publisher = await place.client()
        for topic, value in messages:
            assert (await publisher.ask("publish", topic=topic, value=value, confirm=True))["type"] == "recorded"
        return place

    return begin


def slow(place: Place, *topics: str) -> SlowJournal:
    journal = place.server.journal = SlowJournal(place.core, *topics)
    return journal


# Confirmations.


async def test_a_subscription_knows_where_it_begins(place: Place) -> None:
    without = await place.client()
    assert "journal" not in without.welcome
    journal = slow(place)
    client, other = await place.clients(2)
    assert client.welcome["journal"] == journal.id.hex()
    await other.publish("/a", 1, 2, 3)
    await other.barrier()
    assert await client.done("subscribe", prefixes=["/a"]) == {"offset": 103}
    await client.publish("/a", 4)
    assert await client.values(1) == [("/a", 4)]
    assert await client.done("unsubscribe", prefixes=["/a"]) == {}
    await client.raw.send(
        *(client.encode("publish", topic="/b", value=number) for number in range(4)),
        client.encode("subscribe", prefixes=["/b"], request=1),
        client.encode("publish", topic="/b", value=4),
    )
    assert await client.hear() == {"type": "confirmed", "request": 1, "offset": 108}
    assert await client.values(1) == [("/b", 4)]


async def test_confirmations_in_the_order_of_the_messages(place: Place) -> None:
    journal = slow(place, "/recorded")
    client = await place.client("/")
    topics = ["/recorded", "/other", "$hub/x", "/recorded"]
    await client.raw.send(
        *(
            client.encode("publish", topic=topic, values=[1, 2], confirm=True, request=n)
            for n, topic in enumerate(topics, 1)
        )
    )
    assert [topic for topic, _ in await client.values(6)] == [
        topic for topic in topics for _ in "12" if topic[0] == "/"
    ]
    journal.write()
    told = [await client.hear() for _ in topics]
    assert [(one["type"], one["request"], one.get("offset"), one.get("code")) for one in told] == [
        ("recorded", 1, 100, None),
        ("error", 2, None, CloseCode.NOT_ALLOWED),
        ("error", 3, None, CloseCode.NOT_ALLOWED),
        ("recorded", 4, 102, None),
    ]
    assert place.server.rejected_messages == 2
    await client.say("publish", topic="/recorded", value=1, confirm=True, request=5)
    assert await client.values(1) == [("/recorded", 1)]
    journal.recorder.on_failed(JournalUnavailableError("the disk is full"), 100)
    error = await client.hear()
    assert (error["code"], error["request"]) == (CloseCode.JOURNAL_FAILED, 5)
    assert "the disk is full" in error["text"]


async def test_without_a_journal_nothing_is_recorded(place: Place) -> None:
    client = await place.client("/a")
    for command in ({"kind": "publish", "topic": "/a", "value": 1, "confirm": True}, {"kind": "fetch"}):
        told = await client.ask(**command)
        assert told["code"] == CloseCode.NOT_ALLOWED
        assert "--journal" in told["text"]
    assert await client.values(1) == [("/a", 1)]


@pytest.mark.parametrize("leaves", [False, True])
async def test_whoever_has_gone_is_not_answered(place: Place, *, leaves: bool) -> None:
    journal = slow(place)
    client = await place.client()
    await client.say("publish", topic="/a", value=1, confirm=True, request=1)
    await client.say("fetch", request=2, wait_ms=60_000)
    await client.barrier()
    if leaves:
        client.close()
        await eventually(lambda: not place.server.connections)
        assert journal.cancelled == [2]
    else:
        place.hub.connections[0].end(CloseCode.GOING_AWAY, "test")
    journal.write()
    if not leaves:
        assert await client.hear() == {"type": "close", "code": CloseCode.GOING_AWAY, "text": "test"}


# Pieces of the journal.


async def test_fetching(record: Recording) -> None:
    place = await record(("/a", {"n": 1}), ("/b", 2), ("/ab", [3]), ("/a", 4))
    client = await place.client()
    found = await client.ask("fetch", start=1, end=4, prefixes=["/a"])
    assert found.pop("records") == [(2, "/ab", [3]), (3, "/a", 4)]
    assert found | {"type": "records", "start": 1, "next": 4, "first": 0, "head": 4} == found
    found = await client.ask("fetch", bytes=0)
    assert (found["records"], found["next"], found["head"]) == ([], 0, 4)
    assert (await client.ask("fetch", start=9))["code"] == CloseCode.GONE
    assert (await client.ask("fetch", start=9))["offset"] == 0


@except_on(**dict.fromkeys((*FRAMES, "msgpack"), "sends records as they stand"))
async def test_records_in_json(record: Recording) -> None:
    place = await record()
    client, other = await place.client(), await talker(place.hub, "msgpack", place.hub.endpoint)
    await client.ask("publish", topic="/a", values=["x" * 10_000] * 150, confirm=True)
    assert len((await client.ask("fetch"))["records"]) == 6
    assert 99 < len((await client.ask("fetch", bytes=10_000_000))["records"]) <= 105
    extension = msgspec.msgpack.Ext(0x70, b"x")
    await other.ask("publish", topic="/a", values=[1, extension, 3], confirm=True)
    found = await client.ask("fetch", start=150)
    assert (found["records"], found["dropped"]) == ([(150, "/a", 1), (152, "/a", 3)], 1)
    assert (await other.ask("fetch", start=150))["records"][1] == (151, "/a", extension)


async def test_waiting_for_more(record: Recording) -> None:
    place = await record(("/a", 1))
    client, other = await place.clients(2)
    assert (await client.ask("fetch", start=1))["records"] == []
    await client.say("fetch", request=2, start=1, wait_ms=60_000)
    await client.barrier()
    await other.ask("publish", topic="/a", value=2, confirm=True)
    assert (await client.hear())["records"] == [(1, "/a", 2)]


@except_on(**dict.fromkeys(("json", "msgpack"), "asks for as much as fits in a message of its own form"))
@pytest.mark.parametrize(
    ("asked", "frame_bytes", "taken"),
    [
        (1 << 20, 1 << 24, 1 << 20),
        (1 << 62, 1 << 62, FETCH_LIMIT_BYTES),
        (0, 1 << 24, 0),
        (1 << 20, 60_000, 9_000 - 24),
        (1 << 20, 1000, 1),
    ],
)
async def test_what_is_asked_for_fits(place: Place, asked: int, frame_bytes: int, taken: int) -> None:
    journal = slow(place)
    client = await place.client(frame=frame_bytes)
    await client.say("fetch", request=1, bytes=asked)
    await client.barrier()
    ((order, _),) = journal.orders
    assert order.bytes == taken
    assert (LARGE_FACTOR + 1) * order.bytes <= max(frame_bytes, LARGE_FACTOR + 1)


async def test_an_answer_for_which_its_user_has_no_room(place: Place) -> None:
    journal = slow(place)
    client = await place.client(name="me")
    place.hub.handler("me").share = Quotas({Resource.QUEUED_BYTES: 1_000_000}).join("alice", frozenset())
    for number in (1, 2):
        await client.say("fetch", request=number)
    await client.barrier()
    (_, large), (_, small) = journal.orders
    large(bytearray(encode_frame(Kind.RECORDS, bytes(500_000))))
    told = await client.hear()
    assert (told["request"], told["code"]) == (1, CloseCode.TRY_AGAIN_LATER)
    assert "bytes waiting" in told["text"]
    small(bytearray(encode_frame(Kind.RECORDS, b'"' + b"x" * 1000 + b'"')))
    await client.raw.frame()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"start": -1}, ">= 0"),
        ({"prefixes": []}, "length >= 1"),
        ({"prefixes": [""] * 10_001}, "length <= 10000"),
        ({"prefixes": ["/\0"]}, "control character"),
        ({"wait_ms": 60_001}, "<= 60000"),
        ({"columns": ["size"]}, "Invalid enum value 'size'"),
    ],
    ids=lambda value: f"{value}"[:20],
)
async def test_what_cannot_be_fetched(record: Recording, fields: dict[str, Any], text: str) -> None:
    place = await record()
    client = await place.client()
    code, told = await client.refused("fetch", **fields)
    assert code == CloseCode.BAD_DATA
    assert text in told
    assert await client.barrier() == []


async def test_what_readers_are_asked_and_answer(place: Place) -> None:
    journal = slow(place)
    client = await place.client()
    for number in (1, 2):
        await client.say("fetch", request=number, time_ms=1.5, prefixes=["/a", "/b"], wait_ms=5, bytes=10**12)
    await client.say("fetch", request=1)
    assert (await client.hear())["code"] == CloseCode.TRY_AGAIN_LATER, "it waits already"
    (order, large), (_, damaged) = journal.orders
    assert getattr(order, "form", "frame") == {"json": "json", "msgpack": "msgpack"}.get(place.kind, "frame")
    assert (order.time, order.prefixes, order.wait_ms) == (1500, ("/a", "/b"), 5)
    assert 100_000 < order.bytes <= 4 << 20
    large(bytearray(encode_frame(Kind.RECORDS, bytes(place.server.settings.limits.frame_bytes + 100_000))))
    error = await client.hear()
    assert (error["code"], error["request"]) == (CloseCode.TOO_BIG, 1)
    damaged(RejectedError(CloseCode.JOURNAL_FAILED, "damaged"))
    assert await client.hear() == {"type": "error", "code": 4012, "text": "damaged", "request": 2}


async def test_too_many_fetches(record: Recording) -> None:
    place = await record(("/a", 1))
    client = await place.client()
    for number in range(FETCHES_LIMIT):
        await client.say("fetch", request=number + 1, start=1, wait_ms=60_000)
    assert (await client.ask("fetch"))["code"] == CloseCode.TRY_AGAIN_LATER
    await client.say("fetch", request=7, bytes=0)
    assert (await client.hear())["request"] == 7, "one that waits for a commit gives way to its own number"
    client.close()
    assert place.hub.journal is not None
    await eventually(lambda: place.hub.journal.statistics().fetches == 0)  # type: ignore[union-attr]


async def test_whoever_does_not_read_the_answers_is_not_read_on(place: Place) -> None:
    journal = slow(place)
    client, handler = await place.stalled()
    del handler
    body = b'"' + b"x" * 500_000 + b'"'
    connection = place.hub.connections[-1]
    sent = 0
    while connection.transport.is_reading():
        sent += 1
        await client.say("fetch", request=sent)
        await eventually(lambda: len(journal.orders) == sent or not connection.transport.is_reading())  # noqa: B023
        if len(journal.orders) == sent:
            journal.orders[-1][1](encode_frame(Kind.RECORDS, body))
        await settle()
    assert sent < 10
    for _ in range(len(journal.orders)):
        await client.raw.frame()
    await eventually(connection.transport.is_reading)


async def test_whoever_feeds_a_journal_that_is_behind_is_not_read(place: Place) -> None:
    journal = place.server.journal = SlowJournal(place.core, buffer_bytes=100_000)
    publisher = await place.client()
    feeding = place.hub.connections[-1]
    other, reader = await place.client(), await place.client("other")
    await publisher.raw.send(*(publisher.encode("publish", topic="/a", value="x" * 1000) for _ in range(300)))
    await eventually(lambda: journal.recorder.is_behind and not feeding.transport.is_reading())
    await other.publish("other", 1)
    assert await reader.values(1) == [("other", 1)]
    place.hub.later(15.0)
    assert feeding in place.server.connections
    while not feeding.transport.is_reading():
        journal.write()
        await settle()
    assert await publisher.barrier() == []


# Rights.

POLICY = """
[roles.reader]
publish = ["/a"]
journal = { allow = ["/a", "/mail/{user}"], deny = ["/a/secret"] }
[users]
alice = ["reader"]
bob = []
"""


async def reader(place: Place, user: str = "alice", policy: str = POLICY, *, narrow: bool = False) -> Any:
    recognise(place.hub, policy_of(policy))
    return await place.client(name=user, narrow=narrow)


@pytest.mark.parametrize(
    ("prefixes", "text"),
    [
        ([""], "journal '': not granted as a whole to user 'alice'; granted below: '/a/', '/mail/alice/'"),
        (["/a/b", "/a"], "journal '/a': not granted as a whole to user 'alice'; granted below: '/a/'"),
        (["/a/"], "journal '/a/': not granted as a whole to user 'alice': something below it is denied"),
        (["/a/secret/x"], "journal '/a/secret/x': not granted to user 'alice'"),
        (["/mail/bob/"], "journal '/mail/bob/': not granted to user 'alice'"),
        (["$hub/"], "journal '$hub/': not granted to user 'alice'"),
    ],
    ids=str,
)
async def test_history_of_what_is_not_granted(place: Place, prefixes: list[str], text: str) -> None:
    journal = slow(place)
    client = await reader(place)
    assert await client.refused("fetch", prefixes=prefixes) == (CloseCode.NOT_ALLOWED, text)
    assert not journal.orders


@pytest.mark.parametrize("narrow", [False, True])
async def test_history_of_what_is_granted(record: Recording, *, narrow: bool) -> None:
    topics = ["/a/b", "/a/secret", "/b", "/mail/alice/1", "/mail/bob/1"]
    place = await record(*((topic, 1) for topic in topics))
    client = await reader(place, narrow=narrow)
    prefixes = ["", "/a"] if narrow else ["/a/b", "/mail/alice/"]
    found = await client.ask("fetch", prefixes=prefixes)
    assert [topic for _, topic, _ in found["records"]] == ["/a/b", "/mail/alice/1"]
    stranger = await place.client(name="bob", narrow=narrow)
    for fields in ({}, {"bytes": 0}):  # nor is he told how far the journal reaches
        assert await stranger.refused("fetch", **fields) == (
            CloseCode.NOT_ALLOWED,
            "journal '': not granted to user 'bob'",
        )
    told = await client.ask("publish", topic="/b", value=1, confirm=True)
    assert (told["code"], told["text"]) == (CloseCode.NOT_ALLOWED, "publish '/b': not granted to user 'alice'")


async def test_rights_that_change_while_a_piece_is_read(place: Place) -> None:
    journal = slow(place)
    client = await reader(place)
    await client.say("fetch", request=5, prefixes=["/a/b"], wait_ms=60_000)
    await client.barrier()
    ((_, deliver),) = journal.orders
    place.hub.handler("alice").rights = read_policy({}, "none").rights("alice")
    deliver(bytearray(encode_frame(Kind.RECORDS, b"secret")))
    told = await client.hear()
    assert (told["request"], told["code"]) == (5, CloseCode.TRY_AGAIN_LATER)


# Transactions.


@except_on(**NO_TRANSACTIONS)
async def test_staging_and_committing(record: Recording) -> None:
    place = await record(("/a", 0))
    client = await place.client("/b")
    frames = Batch.of("/b", [4, 5]).frames
    await client.done("stage", transaction="t", part=0, frames=frames)
    for again in ({}, {"again": True}):
        committed = await client.done("commit", transaction="t", query="q", batch=0, parts=[0])
        assert committed == {"offset": 1, "count": 2} | again
    assert await client.values(2) == [("/b", 4), ("/b", 5)]
    await client.say("stage", request=0, transaction="t", part=0, frames=b"no frames")
    told = await client.hear()
    assert (told["type"], told.get("request", 0)) == ("error", 0)
    code, _ = await client.refused("commit", transaction="u", parts=[7])
    assert code == CloseCode.GONE
    code, _ = await client.refused("commit", transaction="")
    assert code == CloseCode.BAD_DATA


# Consumers and stores: they are asked for as services of the hub.


async def test_a_consumer(record: Recording) -> None:
    place = await record(("/a", "one"), ("/b", 0), ("/a", "two"))
    client = await place.client()

    async def ask(what: str, **value: Any) -> Any:
        answer = await client.ask("request", topic=f"$hub/consumers/{what}", value=value)
        assert "status" not in answer, answer
        return answer["value"]

    joined = await ask("join", name="c", terms={"prefixes": ["/a"]}, start=0)
    taken: list[Any] = []
    while len(taken) < 2:
        taken += await ask("take", member=joined["member"], values=True, got=len(taken), wait_ms=60_000)
    assert [(one[0], one[3], one[5]) for one in taken] == [(0, "/a", "one"), (2, "/a", "two")]
    assert await ask("acknowledge", member=joined["member"], offsets=[0, 2]) is None
    assert await ask("take", member=joined["member"], got=2) == []
    assert await ask("remove", name="c") is True


async def test_a_store(start: StartPlace) -> None:
    place = await start(Settings(stores=StoresSettings(open=("s=:memory:",))))
    client, watcher = await place.client(), await place.client("$store/s/changes/")
    key, value = (b64encode(msgspec.msgpack.encode(one)).decode() for one in ("key", 7))
    version = (await client.ask("request", topic="$store/s/write", value=["put", key, value]))["value"]
    found = await client.ask("request", topic="$store/s/read", value=["get", key])
    assert found["value"] == [value if place.kind == "json" else b"\x07", version, None]
    ((topic, _),) = await watcher.values(1)
    assert topic.startswith("$store/s/changes/")
