"""Subscribing and publishing, by topic, label, sender and destination, also across links: what arrives, and when."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import msgpack
import pytest

from hub.errors import CloseCode
from hub.labels.envelope import Envelope, tagged
from hub.labels.rules import check_rule
from hub.limits import QueueLimits
from hub.messages.batch import Batch, decode_values
from hub.messages.frame import FLAG_TAGGED, Frame, encode_frame
from hub.names.claim import Wish
from hub.settings.settings import Settings
from peers.wire.control import NameClaim, Notice, encode_claim, encode_rules
from peers.wire.kinds import Kind
from tests.commands.conftest import CERTIFICATES, Place, StartPlace
from tests.commands.talkers import KINDS, except_on, talker
from tests.connections.rights.conftest import recognise
from tests.hub.rights.hall import policy_of
from tests.hubs.eventually import eventually
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.raw_client import RawClient
from tests.hubs.settings import settings_of

NAME = "org.example.Door"
ONE_STREAM = "a stream of events has its prefixes for good"
NO_NAMES = "claims no names"
VALUES: list[Any] = [{"k": [1, 2.5, None]}, "\u00e9\n", -(2**63), []]


async def test_publish_and_subscribe(place: Place) -> None:
    wanting, other, publisher = await place.client("/a"), await place.client("/b"), await place.client()
    for value in VALUES:
        await publisher.publish("/a/x", value)
    await publisher.publish("/b", "sentinel")
    assert await wanting.values(len(VALUES)) == [("/a/x", value) for value in VALUES]
    assert await other.values(1) == [("/b", "sentinel")]


async def test_between_all_kinds(start_hub: StartHub, tmp_path: Path) -> None:
    hub = await start_hub("ws://127.0.0.1:0")
    web = hub.endpoint
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "hub.pem", CERTIFICATES / "hub.key")
    doors = {"tcp": await hub.listen(), "unix": await hub.listen(f"unix://{tmp_path}/hub.sock")}
    doors["tls"] = await hub.listen_secured(context)
    readers = {kind: await talker(hub, kind, doors.get(kind, web), "/t") for kind in KINDS}
    for kind in KINDS:
        await (await talker(hub, kind, doors.get(kind, web))).publish("/t/x", {"n": 1}, None, "\u00fc", 1.5)
        for reader in readers.values():
            assert await reader.values(4) == [("/t/x", value) for value in ({"n": 1}, None, "\u00fc", 1.5)]


@except_on(http="publishes one request after the other")
async def test_everything_in_one_packet(place: Place) -> None:
    client = await place.client()
    padding = "x" * 100_000
    await client.raw.send(
        client.encode("publish", topic="/a", value="before"),
        client.encode("subscribe", prefixes=["/a"], request=7),
        client.encode("publish", topic="/a", values=[1, 2, 3]),
        client.encode("publish", topic="/a", value=padding),
        client.encode("ping", request=8),
    )
    confirmed = await client.hear()
    assert (confirmed["type"], confirmed["request"]) == ("confirmed", 7)
    told = [one for one in [await client.hear() for _ in range(3)] if one["type"] != "pong"]
    assert told == [
        {"type": "messages", "topic": "/a", "values": [1, 2, 3]},
        {"type": "messages", "topic": "/a", "values": [padding]},
    ]


@except_on(http=ONE_STREAM)
async def test_subscriptions_are_counted(place: Place) -> None:
    client = await place.client("/a", "/a", "/", "/a/b")
    await client.publish("/a/b", 1)
    await client.done("unsubscribe", prefixes=["/a", "/", "/a/b", "/never subscribed"])
    await client.publish("/a/b", 2)
    await client.done("unsubscribe", prefixes=["/a"])
    await client.publish("/a/b", 3)
    await client.done("subscribe", prefixes=["/a"])
    await client.publish("/a/b", 4)
    assert await client.values(3) == [("/a/b", number) for number in (1, 2, 4)]


async def test_many_messages_in_order(start: StartPlace) -> None:
    place = await start(settings_of(queue=QueueLimits(messages=1_000_000)))
    reader, some, publisher = await place.client("/s/"), await place.client("/s/1"), await place.client()
    sent: list[tuple[str, int]] = []
    for number in range(0, 1500 if place.kind != "http" else 150, 3):
        topic = f"/s/{number % 13}"
        await publisher.publish(topic, *range(number, number + 3))
        sent += [(topic, value) for value in range(number, number + 3)]
    assert await reader.values(len(sent)) == sent
    expected = [one for one in sent if one[0].startswith("/s/1")]
    assert await some.values(len(expected)) == expected
    assert place.core.statistics().published_messages_total == len(sent)


REFUSED = {
    "the hub's own": ("$hub/x", CloseCode.NOT_ALLOWED, "$hub/ is the hub's own"),
    "a control character": ("/a\n", CloseCode.BAD_DATA, "control character U+000A"),
    "too long": ("/" * 1025, CloseCode.BAD_DATA, "is 1025 bytes long"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_publications_that_are_refused(place: Place, name: str) -> None:
    topic, code, text = REFUSED[name]
    everything, client = await place.client("/"), await place.client()
    found, told = await client.refused("publish", topic=topic, value=1)
    assert found == code
    assert text in told
    if place.kind == "http":
        client = await place.client()
    else:
        assert place.server.rejected_messages == 1
    await client.done("publish", topic="/end", value=1)
    assert await everything.values(1) == [("/end", 1)]


async def test_subscriptions_that_are_refused(start: StartPlace) -> None:
    place = await start(settings_of(prefixes_per_client=3))
    client = await place.client()
    for prefixes, code, text in (
        (["/1", "/\x07"], CloseCode.BAD_DATA, "control character U+0007"),
        (["/" * 1025], CloseCode.BAD_DATA, "prefix '///"),
        (["/1", "/2", "/3", "/4"], CloseCode.NOT_ALLOWED, "4 prefixes, the limit for a client is 3"),
    ):
        found, told = await client.refused("subscribe", prefixes=prefixes)
        assert found == code
        assert text in told
        assert not place.core.statistics().routing.subscriptions
        client = client if place.kind != "http" else await place.client()
    await client.done("subscribe", prefixes=["/1", "/2", "/3"])


@except_on(http="its requests have no body that is a message; see connections/http")
@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("subscribe", {"prefixes": 5}),
        ("unsubscribe", {"prefixes": [None]}),
        ("serve", {"prefixes": {}}),
        ("rule", {"rules": [{"labels": ["a"] * 33}]}),
        ("rule", {"rules": [{"labels": ["\n"]}]}),
        ("rule", {"rules": [{"prefix": "/a"}]}),
        ("unrule", {"rules": [{"labels": ["a"], "sender": "x"}]}),
        ("claim", {"name": 7}),
        ("claim", {"name": "player"}),
        ("claim", {"name": "a." + "b" * 300}),
        ("claim", {"name": NAME, "labels": [""]}),
        ("claim", {"name": NAME, "labels": ["x"] * 33}),
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_else(place: Place, command: str, fields: Any) -> None:
    client = await place.client("/a")
    await client.say(command, request=7, **fields)
    told = await client.hear()
    assert (told["type"], told["code"]) == ("error", CloseCode.BAD_DATA)
    assert told.get("request", 7) == 7, "frames that cannot be read have no number"
    await client.publish("/a", 1)
    assert await client.values(1) == [("/a", 1)]


# Labels, senders, destinations.


async def test_labels_arrive(place: Place) -> None:
    reader, publisher = await place.client("/t"), await place.client()
    await publisher.done("publish", topic="/t", value=1, labels=["b", "a", "a"])
    assert await reader.hear() == {"type": "messages", "topic": "/t", "labels": ["a", "b"], "values": [1]}
    code, _ = await publisher.refused(
        "publish", topic="/t", value=1, labels=[""] if place.kind == "http" else ["a"], to="x"
    )
    assert code == CloseCode.BAD_DATA


@except_on(http="has no rules")
async def test_a_message_reaches_all_who_want_it_once(place: Place) -> None:
    source, by_topic = await place.client(), await place.client("/t")
    by_rule, by_both = await place.client(), await place.client("/t", "/")
    rules = [{"labels": ["low", "door"], "prefix": "/t"}]
    for client in (by_rule, by_both):
        await client.done("rule", rules=rules)
    await source.say("publish", topic="/t", value=1, labels=["low", "door", "x"])
    await source.say("publish", topic="/t", value=2, labels=["low"])
    await source.say("publish", topic="/t", value=3)
    await source.say("publish", topic="/u", value=4, labels=["low", "door"])
    await source.barrier()
    found = [[value for one in await client.barrier() for value in one["values"]] for client in (by_topic, by_rule)]
    assert found == [[1, 2, 3], [1]]
    assert await by_both.values(4) == [("/t", 1), ("/t", 2), ("/t", 3), ("/u", 4)]
    await by_rule.done("unrule", rules=rules)
    await source.done("publish", topic="/t", value=5, labels=["low", "door"])
    assert await by_rule.barrier() == []
    assert place.core.statistics().routing.rules == 1
    by_both.close()
    await eventually(lambda: not len(place.core.rules))


@except_on(http=NO_NAMES)
async def test_senders_and_destinations(place: Place) -> None:
    owner, other, reader, bystander = (
        await place.client(),
        await place.client(),
        await place.client(),
        await place.client("/"),
    )
    code, text = await other.refused("publish", topic="/t", value=0, to=NAME)
    assert (code, text) == (CloseCode.TRY_AGAIN_LATER, f"no client owns the name '{NAME}'")
    await owner.done("claim", name=NAME)
    await reader.done("rule", rules=[{"sender": NAME}])
    await owner.publish("/t", 1, sender=NAME)
    assert await reader.hear() == {"type": "messages", "topic": "/t", "sender": NAME, "values": [1]}
    await other.done("publish", topic="/t", value=2, to=NAME)
    assert await owner.hear() == {"type": "messages", "topic": "/t", "to": NAME, "values": [2]}
    code, text = await other.refused("publish", topic="/t", value=3, sender=NAME)
    assert (code, text) == (CloseCode.NOT_ALLOWED, f"sender '{NAME}': that name is not yours")
    assert place.server.rejected_messages == 2
    assert [one["values"] for one in await bystander.barrier()] == [[1]]


@except_on(http="has no rules")
async def test_too_many_rules(start: StartPlace) -> None:
    place = await start(settings_of(rules_per_client=2))
    client = await place.client()
    await client.done("rule", rules=[{"labels": [label]} for label in "ab"])
    assert await client.refused("rule", rules=[{"labels": ["c"]}]) == (
        CloseCode.NOT_ALLOWED,
        "3 rules, the limit for a client is 2",
    )


# Queues.


@except_on(http="wishes for a queue in its query")
@pytest.mark.parametrize(
    ("wish", "granted"),
    [
        ({}, (8192, 64 << 20, "drop-oldest")),
        ({"messages": 5}, (5, 64 << 20, "drop-oldest")),
        ({"bytes": 2048, "overflow": "disconnect"}, (8192, 2048, "disconnect")),
        ({"messages": 10**9, "bytes": 2**50, "overflow": "drop-newest"}, (1_000_000, 256 << 20, "drop-newest")),
    ],
)
async def test_wishes_for_a_queue(place: Place, wish: Any, granted: tuple[int, int, str]) -> None:
    client = await place.client(name="reader", queue=wish)
    assert tuple(client.welcome["queue"].values()) == granted
    limits = place.hub.handler("reader").limits
    assert (limits.messages, limits.bytes, limits.overflow.value) == granted


@except_on(http="is greeted by nothing")
async def test_the_welcome(place: Place) -> None:
    client = await place.client(name="me")
    told = {"type": "welcome", "hub": place.server.id.hex(), "name": "hub", "frame": 16 << 20}
    queue = {"messages": 8192, "bytes": 64 << 20, "overflow": "drop-oldest"}
    assert client.welcome == told | {"queue": queue, "software": client.welcome["software"]}
    assert client.welcome["software"].startswith("topichub ")
    assert place.hub.handler("me").address.startswith("unix:" if place.kind == "unix" else "127.0.0.1:")


# Rights.

POLICY = """
[roles.some]
publish = ["/a"]
subscribe = ["/a", "/{user}"]
request = ["/a"]
serve = ["/a"]
claim = ["org.a"]
[users]
alice = ["some"]
"""


async def restricted(place: Place) -> Any:
    recognise(place.hub, policy_of(POLICY))
    return await place.client(name="alice")


@pytest.mark.parametrize(
    ("command", "fields", "text"),
    [
        ("subscribe", {"prefixes": ["/a/x", "/b"]}, "'/b': not granted to"),
        ("subscribe", {"prefixes": [""]}, "'': not granted as a whole to"),
        ("publish", {"topic": "/b", "value": 1}, "'/b': not granted to"),
        ("serve", {"prefixes": ["/b"]}, "'/b': not granted to"),
        ("claim", {"name": "org.b"}, "'org.b': not granted to"),
        ("rule", {"rules": [{"labels": ["l"], "prefix": "/a/x"}, {"labels": ["l"], "prefix": "/b"}]}, "'/b': not gran"),
        ("fetch", {"prefixes": ["/b"]}, "'/b': not granted to"),
    ],
)
async def test_what_is_not_granted(place: Place, command: str, fields: Any, text: str) -> None:
    if place.kind == "http" and command not in {"subscribe", "publish"}:
        pytest.skip("HTTP has no such command")
    client = await restricted(place)
    code, told = await client.refused(command, **fields)
    assert code == CloseCode.NOT_ALLOWED
    action = {"rule": "subscribe", "fetch": "journal"}.get(command, command)
    assert told.startswith(f"{action} {text}")
    assert "user 'alice'" in told
    assert place.server.audit.refused_total == 1
    statistics = place.core.statistics().routing
    assert (statistics.subscriptions, statistics.rules) == (0, 0)
    assert not place.core.requests.statistics().services


@except_on(http="is given rights by a token; see connections/http")
async def test_what_is_granted_and_taken_away(place: Place) -> None:
    client = await restricted(place)
    await client.done("subscribe", prefixes=["/a/x", "/alice/"])
    await client.done("rule", rules=[{"labels": ["red"], "prefix": "/a/x"}])
    await client.done("serve", prefixes=["/a/x"])
    await client.done("claim", name="org.a.x")
    await client.done("publish", topic="/a/x", value=1)
    assert await client.values(1) == [("/a/x", 1)]
    assert place.server.audit.refused_total == 0
    handler = place.hub.handler("alice")
    less = policy_of(POLICY.replace('subscribe = ["/a", "/{user}"]', "").replace('claim = ["org.a"]', ""))
    place.core.authority.give_rights(handler, less.rights("alice"))
    lost, told = await client.hear(), await client.hear()
    assert (lost["type"], lost["name"], lost["standing"]) == ("name", "org.a.x", "lost")
    assert told["code"] == CloseCode.NOT_ALLOWED
    assert told["text"].startswith("no longer granted to user 'alice', and removed: claim 'org.a.x', subscribe ")
    assert handler.prefixes == {}


@except_on(http="is a connection of its own for each stream")
async def test_as_many_prefixes_as_are_allowed(start: StartPlace) -> None:
    place = await start(Settings(limits=settings_of(prefixes_per_client=10_000, services_per_client=10_000).limits))
    client = await place.client(name="me")
    many = [f"/{number}" for number in range(5000)]
    for more, less in (("subscribe", "unsubscribe"), ("serve", "unserve")):
        await client.raw.send(
            client.encode(more, prefixes=many, request=1),
            client.encode(less, prefixes=many[:-1], request=2),
            client.encode("ping", request=3),
        )
        assert [(await client.hear())["request"] for _ in range(3)] == [1, 2, 3]
    assert list(place.hub.handler("me").prefixes) == ["/4999"]
    assert place.core.requests.statistics().services == 1


def labelled(value: Any, *labels: str, topic: str = "/t", sender: str = "", to: str = "") -> bytes:
    return Batch.under(tagged(topic, labels, sender, to).encode(), [value], FLAG_TAGGED).frames


async def rule(client: RawClient, *labels: str, prefix: str = "", sender: str = "", kind: Kind = Kind.RULE) -> Notice:
    fields = (labels, prefix, sender)
    await client.send(encode_frame(kind, msgpack.packb((9, [fields]))))
    return await client.notice()


def values_of(frames: list[Frame]) -> list[Any]:
    assert all(frame.kind == Kind.MESSAGES for frame in frames)
    return [value for frame in frames for value in decode_values(frame)]


# Links.


async def linked(start_hub: StartHub) -> tuple[Hub, Hub]:
    north = await start_hub(name="north", hub_id=b"\1" * 16)
    south = await start_hub(name="south", hub_id=b"\2" * 16)
    north.dial(south)
    await eventually(lambda: len(north.server.links) == len(south.server.links) == 1)
    await eventually(lambda: {"north"} == {one.name for one in south.server.core.handlers.values()})
    await eventually(lambda: {"south"} == {one.name for one in north.server.core.handlers.values()})
    return north, south


async def test_rules_cross_several_links(start_hub: StartHub) -> None:
    north, south = await linked(start_hub)
    east = await start_hub(name="east", hub_id=b"\3" * 16)
    east.dial(south)
    by_rule, by_both, source = await north.client(), await north.client("/t"), await east.client()
    for client in (by_rule, by_both):
        await rule(client, "a", "b", prefix="/t")
    await eventually(lambda: len(east.server.core.rules) == 1)
    await eventually(lambda: "/t" in east.wanted_by(north))
    await source.send(
        labelled(1, "a", "b"), labelled(2, "a", "b", topic="/u"), labelled(3, "a", "b", "c", topic="/t/x")
    )
    assert values_of([await by_rule.frame(), await by_rule.frame()]) == [1, 3]
    assert values_of([await by_both.frame(), await by_both.frame()]) == [1, 3]
    assert south.handler("north").delivered_messages == 2


async def test_rules_that_were_there_before_the_link(start_hub: StartHub) -> None:
    north = await start_hub(name="north", hub_id=b"\1" * 16)
    south = await start_hub(name="south", hub_id=b"\2" * 16)
    clients = [await north.client() for _ in range(3)]
    rules = [check_rule([f"l{number}", "x" * 100]) for number in range(2_500)]
    for client, start in zip(clients, (0, 800, 1600), strict=True):
        await client.send(encode_rules(Kind.RULE, rules[start : start + 900], 1))
        await client.notice()
    north.dial(south)
    await eventually(lambda: len(south.server.core.rules) == 2_500)
    envelope = Envelope("/t", rules[0].labels)
    link = south.handler("north")
    assert south.server.core.routes.find_tagged(envelope).handlers == (link,)
    await north.stop_dialling()
    await eventually(lambda: link not in south.server.core.routes.find_tagged(envelope).handlers)
    source = await south.client()
    await source.send(labelled(1, *rules[0].labels))
    await eventually(lambda: south.server.core.mesh.statistics().unreached_messages_total == 1)


async def test_senders_and_destinations_cross_a_link(start_hub: StartHub) -> None:
    north, south = await linked(start_hub)
    door, reader, source = await north.client(), await south.client(), await south.client()
    await rule(reader, sender=NAME)
    await door.send(encode_claim(NameClaim(0, Wish(NAME))))
    await eventually(lambda: south.server.core.names.register.owner(NAME) is not None)
    await eventually(lambda: len(north.server.core.rules) == 1)
    await door.send(labelled(1, sender=NAME))
    assert values_of([await reader.frame()]) == [1]
    await source.send(labelled(2, to=NAME), labelled(3, sender=NAME))
    assert (await source.notice()).code == CloseCode.NOT_ALLOWED
    assert values_of([await door.frame()]) == [2]
