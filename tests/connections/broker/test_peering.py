"""A hub as one endpoint among others, over sockets; and one Zeek that is peered with several hubs of a mesh."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import pairwise, permutations
from typing import Any

import pytest
import structlog

from hub.errors import CloseCode
from hub.handlers.delivery import Role
from hub.limits import Overflow
from hub.messages.batch import Batch
from hub.policy.language import read_policy
from hub.policy.policy import Action
from hub.settings.settings import Settings, ZeekSettings
from peers.connections import broker
from peers.connections.broker import STEP_PREFIXES
from peers.connections.broker_peerings import Registry
from peers.connections.zeek_diallers import tls_server_context
from peers.values import Count, Table, decode, encode
from peers.zeek.broker.messages import BrokerCode, EnvelopeType, Tag, encode_hello, encode_version_select
from tests.connections.broker.conftest import PLAIN, StartHub
from tests.connections.broker.scripted import HIGH, LOW, OTHER, Data, Endpointlike, ZeekHub
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_client import RawClient
from tests.hubs.settings import settings_of

LARGE = bytes.fromhex("ff" * 16)
NAME = "11111111-1111-4111-8111-111111111111"


async def statuses(watcher: RawClient, count: int) -> list[tuple[str, str, str, int]]:
    seen = []
    while len(seen) < count:
        ((topic, value),) = await watcher.values(1)
        seen.append((topic.removeprefix("$hub/peers/"), value["broker"], value["endpoint"], value["code"]))
    return seen


async def bodies(client: RawClient, count: int) -> list[tuple[str, Any]]:
    got = [await client.frame() for _ in range(count)]
    return [(frame.key.decode(), decode(frame.body)) for frame in got]


async def dropped_at(far: Endpointlike) -> tuple[int, str]:
    while (message := await far.message()).tag is not Tag.DROP_CONN:
        pass
    return message.code, message.text


@pytest.mark.parametrize("far_id", [LOW, LARGE])
async def test_both_orders_of_ids(hub: ZeekHub, far_id: bytes) -> None:
    reader = await hub.client("/zeek/")
    far = await hub.zeek("/hub/", own_id=far_id)
    assert (far.hub_id, far.hub_filter) == (HIGH, ("/zeek/",))
    far.publish("/zeek/a", encode(Count(1)), encode("two"))
    far.publish("/hub/back", encode("not back"))
    assert await bodies(reader, 2) == [("/zeek/a", Count(1)), ("/zeek/a", "two")]
    publisher = await hub.client()
    await publisher.publish("/hub/x", {"k": [1, True, None]})
    await publisher.publish("/else", "nobody wants that")
    await publisher.publish("/hub/y", 2)
    first, second = await far.data(2)
    assert (first.topic, decode(first.payload)) == ("/hub/x", Table([("k", (1, True, None))]))
    assert second == Data("/hub/y", encode(2))
    await far.barrier()


async def test_the_filter_follows_the_subscribers(hub: ZeekHub) -> None:
    far = await hub.zeek("/far/")
    other = await hub.zeek("/other/", own_id=OTHER)
    assert far.hub_filter == other.hub_filter == ()
    client = await hub.client("/a/", "/a/b", "/c")
    assert await far.told() == await other.told() == ("/a/", "/c")
    await client.unsubscribe("/a/")
    assert await far.told() == ("/a/b", "/c")
    client.close()
    assert await far.told() == ()


async def test_forwarding_between_zeeks_may_be_off(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(forwarding="off")))
    reader = await hub.client("/a")
    far, other = await hub.zeek("/a"), await hub.zeek("/a", own_id=OTHER)
    far.publish("/a", encode(1))
    assert await bodies(reader, 1) == [("/a", 1)]
    await other.barrier()
    publisher = await hub.client()
    await publisher.publish("/a", 2)
    assert await far.data(1) == await other.data(1) == [Data("/a", encode(2))]


async def test_a_filter_that_changes(hub: ZeekHub) -> None:
    far = await hub.zeek("/a", "$hub/")
    publisher = await hub.client()
    assert set(hub.handler(NAME).prefixes) == {"/a"}
    far.update(["/b", "$hub/peers/", ""])
    far.publish("$hub/peers/added", encode("not taken"))
    await far.barrier()
    assert hub.server.rejected_messages == 1
    far.update(["/b"])
    await far.barrier()
    await publisher.publish("/a", 1)
    await publisher.publish("/b", 2)
    assert await far.data(1) == [Data("/b", encode(2))]


async def test_a_large_filter_is_taken_in_bit_by_bit(hub: ZeekHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_AT_ONCE_PREFIXES", 2_000)
    prefixes = [f"/p/{number:05}/" for number in range(5_000)]
    far = await hub.zeek()
    far.update(prefixes)
    far.update(prefixes[:3])
    seen = set()
    while len(hub.handler(NAME).prefixes) != 3 or len(seen) < 5:
        seen.add(len(hub.handler(NAME).prefixes))
        await asyncio.sleep(0)
    assert max(seen) == 5_000
    assert all(size % STEP_PREFIXES in {0, 3} for size in seen)
    assert set(hub.handler(NAME).prefixes) == set(prefixes[:3])
    far.update(["/p/00001/", *prefixes[5:]])  # before all is taken in, another one comes, and then it is gone
    far.update(["/p/00001/", "/last"])
    await eventually(lambda: set(hub.handler(NAME).prefixes) == {"/p/00001/", "/last"})
    far.update(prefixes)
    far.close()
    await eventually(lambda: not hub.server.core.handlers)
    await eventually(lambda: hub.server.core.statistics().routing.subscriptions == 0)


async def test_statuses(hub: ZeekHub) -> None:
    watcher = await hub.client("$hub/peers/")
    far = await hub.zeek("")
    assert await statuses(watcher, 1) == [("added", "peer_added", NAME, 0)]
    far.close()
    assert await statuses(watcher, 1) == [("lost", "peer_lost", NAME, CloseCode.GOING_AWAY)]
    far = await hub.zeek("/a")
    await far.barrier()
    publisher = await hub.client()
    for number in range(50):
        await publisher.publish("/a", number)
    await publisher.ping()
    hub.server.draining = True
    hub.zeeks[-1].drain()
    assert await far.data(50) == [Data("/a", encode(number)) for number in range(50)]
    assert (await far.envelope()).type is EnvelopeType.PING
    assert far.pings[0].startswith(b"BYE")
    assert len(far.pings[0]) == 11
    assert await far.everything() == b""
    assert await statuses(watcher, 2) == [
        ("added", "peer_added", NAME, 0),
        ("removed", "peer_removed", NAME, CloseCode.GOING_AWAY),
    ]
    hub.server.draining = False


async def test_a_goodbye_that_is_not_answered(hub: ZeekHub) -> None:
    far = await hub.zeek("/a")
    hub.zeeks[0].drain()
    await far.frame()
    hub.later(2.0)
    assert hub.zeeks[0] in hub.server.connections
    hub.later(2.0)
    await eventually(lambda: hub.zeeks[0] not in hub.server.connections)


async def test_stopping_in_the_handshake(hub: ZeekHub) -> None:
    far = await Endpointlike.connect(hub.zeek_endpoint)
    assert (await far.message()).tag is Tag.PROBE
    hub.zeeks[0].drain()
    assert await dropped_at(far) == (BrokerCode.SHUTTING_DOWN, "shutting down")
    far.close()
    stranger = await Endpointlike.connect(hub.zeek_endpoint)  # that says nothing
    assert (await stranger.message()).tag is Tag.PROBE
    hub.later(6.0)
    assert (await dropped_at(stranger))[1] == "no handshake within 5 s"
    stranger.close()


async def test_a_second_connection_is_redundant(hub: ZeekHub) -> None:
    for own_id, said, told in (
        (LOW, encode_version_select(LOW), (40, "detected redundant connection at the responder")),
        (LARGE, b"", (BrokerCode.REDUNDANT_CONNECTION, "redundant connection")),
    ):
        far = await hub.zeek("/a", own_id=own_id)
        again = await Endpointlike.connect(hub.zeek_endpoint, own_id)
        again.write(encode_hello(own_id), said)
        assert await dropped_at(again) == told
        assert await again.everything() == b""
        again.close()
        await far.barrier()


async def test_connecting_to_itself(hub: ZeekHub) -> None:
    far = await Endpointlike.connect(hub.zeek_endpoint, HIGH)
    far.write(encode_hello(HIGH))
    assert (await far.message()).tag is Tag.PROBE
    assert (await far.message()).tag is Tag.HELLO
    far.write(encode_hello(HIGH))
    assert await far.everything() == b""
    assert len(hub.peerings.registry) == 0
    far.close()


async def test_a_peer_that_is_silent_is_pinged(hub: ZeekHub) -> None:
    far = await hub.zeek("/a")
    hub.later(21.0)
    assert (await far.envelope()).payload == b"hub"
    await far.barrier()
    hub.later(21.0)
    await far.frame()
    hub.later(11.0)
    await eventually(lambda: len(hub.peerings.registry) == 0)
    assert "no answer to the ping within 10 s" in hub.zeeks[0].reason


@pytest.mark.parametrize("overflow", [Overflow.DISCONNECT, Overflow.DROP_OLDEST])
async def test_a_peer_that_never_reads(start_hub: StartHub, overflow: Overflow) -> None:
    hub = await start_hub(f"{PLAIN}?messages=100&overflow={overflow.value}")
    reader, publisher = await hub.client("/a"), await hub.client()
    slow = await hub.zeek("/a")
    (handler,) = [one for one in hub.server.core.handlers.values() if one.role is Role.LEAF]
    sent = 0
    while not handler.dropped_messages:
        for _ in range(50):
            await publisher.publish("/a", bytes(20_000))
        sent += 50
        await publisher.ping()
        await reader.values(50)
    if overflow is Overflow.DISCONNECT:
        assert handler.closed
        await eventually(lambda: len(hub.peerings.registry) == 0)
    else:
        assert handler.statistics().queued_messages <= 100
        assert handler.delivered_messages + handler.dropped_messages + handler.statistics().queued_messages == sent
    slow.close()


async def test_what_has_no_form_is_counted(hub: ZeekHub) -> None:
    far, reader, publisher = await hub.zeek("/a"), await hub.client("/a"), await hub.client()
    await publisher.send(
        Batch.of("/a", [1]).frames, b"\x00\x00\x00\x01\x02\x00\x00\x02/a\xc1", Batch.of("/a", [2]).frames
    )
    assert await far.data(2) == [Data("/a", encode(1)), Data("/a", encode(2))]
    handler = hub.handler(NAME)
    assert handler.dropped_messages == 1
    for _ in range(3):
        await reader.frame()


@pytest.mark.parametrize("far_id", [LOW, LARGE])
@pytest.mark.parametrize("scheme", ["zeek+tcp", "zeek"])
async def test_dialling(start_hub: StartHub, scheme: str, far_id: bytes) -> None:
    hub = await start_hub()
    watcher = await hub.client("$hub/peers/")
    came: asyncio.Queue[Endpointlike] = asyncio.Queue()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far = Endpointlike(reader, writer, far_id)
        await came.put(await far.peer("/a", as_connector=False))

    tls = tls_server_context(ZeekSettings()) if scheme == "zeek" else None
    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    url = f"{scheme}://127.0.0.1:{port}"
    hub.dial_zeek(url)
    far = await came.get()
    ((topic, value),) = await watcher.values(1)
    assert (topic, value["address"], value["broker_code"]) == ("$hub/peers/added", url, 1)
    publisher = await hub.client()
    await publisher.publish("/a", 1)
    assert await far.data(1) == [Data("/a", encode(1))]
    server.close()
    far.close()
    told = [topic for topic, _ in await watcher.values(2)]
    assert told == ["$hub/peers/lost", "$hub/peers/unavailable"]
    server = await asyncio.start_server(accept, "127.0.0.1", port, ssl=tls)
    far = await came.get()
    await far.barrier()
    await hub.stop_dialling()
    far.close()
    server.close()


async def test_who_wants_everything_leaves_stores_alone(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(topics=("/set/",))))
    await hub.client("", "$hub/peers/")
    far = await hub.zeek()
    assert far.hub_filter == ("/set/",)
    reader = await hub.client("/zeek/", "zeek/known/hosts")
    assert await far.told() == ("/set/", "/zeek/")
    far.publish("/zeek/a", encode(Count(1)))
    assert await bodies(reader, 1) == [("/zeek/a", Count(1))]


async def test_a_tls_handshake_that_fails(start_hub: StartHub) -> None:
    hub = await start_hub("zeek://127.0.0.1:0")
    with structlog.testing.capture_logs() as logs:
        for said in (encode_hello(LOW), b""):
            _, writer = await asyncio.open_connection(hub.zeek_endpoint.host, hub.zeek_endpoint.port)
            writer.write(said)
            writer.write_eof()
            failures = hub.server.zeek.tls_failures
            await eventually(lambda failures=failures: hub.server.zeek.tls_failures > failures)  # type: ignore[misc]
            writer.close()
    told = [line for line in logs if line["event"] == "TLS handshake with a Zeek failed"]
    assert len(told) == hub.server.zeek.tls_failures == 2
    assert all(line["address"].startswith("127.0.0.1:") and line["reason"] for line in told)
    assert not hub.server.connections


async def test_the_role_of_all_zeeks(start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(zeek=ZeekSettings(role="zeeks")))
    known = KnownTokens(hub)
    far = await hub.zeek("")
    rights = hub.handler(NAME).rights
    assert rights is not None
    assert rights.user.name == "zeek"
    assert rights.may(Action.BRING, "/zeek/dns")
    assert not rights.may(Action.BRING, "/control")
    reader = await hub.client("", token=known.token("alice"))
    far.publish("/control/x", encode("not granted"))
    far.publish("/zeek/dns", encode("granted"))
    frame = await reader.frame()
    assert frame.key == b"/zeek/dns"
    await reader.publish("/zeek/back", 1)
    await reader.publish("/control/x", 2)
    assert await far.data(1) == [Data("/control/x", encode(2))]


@pytest.mark.parametrize("delay_s", [0.0, 2.0])
async def test_a_zeek_that_is_nobody(start_hub: StartHub, delay_s: float) -> None:
    hub = await start_hub()
    known = KnownTokens(hub)
    known.answer_after(delay_s)
    peering = asyncio.create_task(hub.zeek("/a"))
    await eventually(lambda: known.failures == 1)
    hub.later(delay_s + 1)
    await eventually(lambda: hub.zeeks[0].conversation.session.closed)
    assert hub.server.core.handlers == {}
    assert len(hub.peerings.registry) == 0
    peering.cancel()
    with contextlib.suppress(asyncio.CancelledError, AssertionError, EOFError, asyncio.IncompleteReadError):
        await peering


async def test_a_zeek_that_this_hub_dials(start_hub: StartHub) -> None:
    far = await start_hub(hub_id=bytes.fromhex("22222222222242228222222222222222"))
    near = await start_hub()
    KnownTokens(near)
    near.dial_zeek(f"zeek+tcp://127.0.0.1:{far.zeek_endpoint.port}")
    await eventually(lambda: len(near.peerings.registry) == 1 and len(near.server.core.handlers) == 1)
    (handler,) = near.server.core.handlers.values()
    assert handler.rights is None


async def come_and_go(hub: ZeekHub) -> None:
    reader = await hub.client("/zeek/")
    far = await hub.zeek("/hub/")
    silent = await Endpointlike.connect(hub.zeek_endpoint)
    far.publish("/zeek/a", encode("one"))
    await reader.frame()
    publisher = await hub.client()
    await publisher.publish("/hub/x", 1)
    await far.data(1)
    for each in (far, silent, reader, publisher):
        each.close()
    await eventually(lambda: not hub.server.connections)
    for made in (hub.connections, hub.zeeks, hub._far_sides):
        made.clear()  # type: ignore[attr-defined]
    await settle()


async def test_endpoints_that_connect(hub: ZeekHub) -> None:
    await leaves_nothing(lambda: come_and_go(hub))


class Connection:
    def __init__(self) -> None:
        self.told: list[str] = []

    def proceed(self) -> None:
        self.told.append("proceed")

    def give_way(self) -> None:
        self.told.append("give way")


def test_which_connection_to_an_endpoint_stays() -> None:
    registry = Registry()
    first, gone, second, third, elsewhere = (Connection() for _ in range(5))
    for claimant in (first, first, gone, second, third):
        registry.claim(LOW, claimant)
    registry.claim(OTHER, elsewhere)
    assert [each.told for each in (first, gone, second, third, elsewhere)] == [["proceed"] * 2, [], [], [], ["proceed"]]
    registry.release(LOW, gone)
    registry.release(LOW, first)  # it has failed: who waits takes its place
    assert (gone.told, second.told, third.told) == ([], ["proceed"], [])
    assert LOW not in registry
    registry.settle(LOW)
    assert LOW in registry
    assert third.told == ["give way"]
    registry.claim(LOW, first)
    assert first.told[2:] == ["give way"]
    assert len(registry) == 1
    registry.release(LOW, third)
    assert LOW in registry
    registry.release(LOW, second)
    assert (LOW in registry, len(registry)) == (False, 0)
    registry.claim(LOW, third)
    assert third.told[1:] == ["proceed"]


async def test_a_filter_of_too_many_prefixes_ends_the_peering(start_hub: StartHub) -> None:
    hub = await start_hub(settings=settings_of(prefixes_per_peer=3))
    far = await hub.zeek()
    far.update([f"/{number}" for number in range(4)])
    await eventually(lambda: len(hub.peerings.registry) == 0)
    assert "4 prefixes, the limit for a peer is 3" in hub.zeeks[0].reason


_IDS = [bytes([0xA0 + number]) * 16 for number in range(3)]
_PREFIX = "/zeek/"


async def row(start_hub: StartHub, count: int = 2) -> list[ZeekHub]:
    hubs = [await start_hub(hub_id=hub_id) for hub_id in _IDS[:count]]
    for near, far in pairwise(hubs):
        near.dial(far)
    await reached(*hubs)
    return hubs


async def reached(*hubs: ZeekHub) -> None:
    ids = {hub.server.id for hub in hubs}
    await eventually(lambda: all(hub.server.core.mesh.graph.reached >= ids for hub in hubs))


async def wanted(*hubs: ZeekHub) -> None:
    await eventually(lambda: all(_PREFIX in near.wanted_by(far) for near, far in permutations(hubs, 2)))


def gateways(hubs: list[ZeekHub], endpoint: bytes = LOW) -> set[bytes]:
    return {hub.server.core.leaves.gateway_of(endpoint) for hub in hubs}


def publish(count: int, *zeeks: Endpointlike, first: int = 0) -> None:
    for number in range(first, first + count):
        for zeek in zeeks:
            zeek.publish(_PREFIX, encode(number))


async def numbers(reader: RawClient, count: int) -> list[object]:
    got: list[object] = []
    async for frame in reader.frames():
        got.append(decode(frame.body))
        if len(got) == count:
            break
    return got


async def nothing_more(hub: ZeekHub, reader: RawClient) -> None:
    publisher = await hub.client()
    await publisher.publish(_PREFIX + "last", "last")
    async for frame in reader.frames():
        assert frame.key.decode() == _PREFIX + "last"
        break


async def test_the_first_hub_is_the_gateway(start_hub: StartHub) -> None:
    hubs = await row(start_hub, 3)
    readers = [await hub.client(_PREFIX) for hub in hubs]
    await wanted(*hubs)
    first = await hubs[2].zeek("/control/")
    second = await hubs[0].zeek("/control/")
    assert (first.hub_filter, second.hub_filter) == ((_PREFIX,), ())
    assert gateways(hubs) == {_IDS[2]}
    publish(5, first, second)  # the second one would not publish it to the hub, which has not asked for it
    for hub, reader in zip(hubs, readers, strict=True):
        assert await numbers(reader, 5) == [0, 1, 2, 3, 4]
        await nothing_more(hub, reader)
    await eventually(lambda: hubs[0].server.core.leaves.skipped_messages == 5)
    await eventually(lambda: "/control/" in hubs[0].wanted_by(hubs[2]))
    assert not hubs[2].wanted_by(hubs[0]) & {"/control/"}
    for number, hub in enumerate(hubs):
        await (await hub.client()).publish("/control/", number)
        assert await first.data(1) == [Data("/control/", encode(number))]
    await second.barrier()


async def test_another_hub_takes_over(start_hub: StartHub) -> None:
    hubs = await row(start_hub, 3)
    reader = await hubs[1].client(_PREFIX)
    await eventually(lambda: all(_PREFIX in hub.wanted_by(hubs[1]) for hub in (hubs[0], hubs[2])))
    with structlog.testing.capture_logs() as logs:
        zeeks = [await hub.zeek("/control/") for hub in hubs]
        assert [zeek.hub_filter for zeek in zeeks] == [(_PREFIX,), (), ()]
        zeeks[0].close()
        assert await zeeks[1].told() == (_PREFIX,)
        publish(3, zeeks[1])
        assert await numbers(reader, 3) == [0, 1, 2]
        back = await hubs[0].zeek("/control/")
        assert back.hub_filter == ()
    told = [(entry["event"], entry["hub"]) for entry in logs if "gateway" in entry["event"] or "left" in entry["event"]]
    left = "a Zeek is left to another hub"
    assert told == [
        (left, _IDS[0].hex()),
        (left, _IDS[0].hex()),
        ("this hub is the gateway of a Zeek now", _IDS[1].hex()),
        (left, _IDS[1].hex()),
    ]
    await hubs[0].stop_dialling()
    await hubs[1].stop_dialling()
    await hubs[1].stop()
    assert _PREFIX in await back.told()  # a hub that is gone is remembered for a while, with what was wanted there
    await eventually(lambda: [hub.server.core.leaves.left for hub in (hubs[0], hubs[2])] == [0, 0])


async def test_a_zeek_that_comes_to_two_hubs_at_once(start_hub: StartHub) -> None:
    hubs = await row(start_hub)
    for hub in hubs:
        await hub.client(_PREFIX)
    await wanted(*hubs)
    zeeks = await asyncio.gather(*(hub.zeek() for hub in hubs))
    assert sorted(zeek.hub_filter for zeek in zeeks) == [(), (_PREFIX,)]
    assert len(gateways(hubs)) == 1


async def test_a_link_that_may_not_bring_everything(start_hub: StartHub) -> None:
    hubs = await row(start_hub)
    (link,) = hubs[0].server.core.mesh.links
    policy = {"roles": {"near": {"link": {"bring": ["/site"], "take": ["*"]}}}, "users": {"far": ["near"]}}
    hubs[0].server.core.authority.give_rights(link, read_policy(policy, "a test").rights("far"))
    await hubs[0].client(_PREFIX)
    await eventually(lambda: _PREFIX in hubs[1].wanted_by(hubs[0]))
    assert [(await hub.zeek()).hub_filter for hub in (hubs[1], hubs[0])] == [(_PREFIX,), (_PREFIX,)]


async def test_a_handshake_that_ends_while_others_are_asked(start_hub: StartHub) -> None:
    hubs = await row(start_hub)
    far = await Endpointlike.connect(hubs[0].zeek_endpoint)
    far.write(encode_hello(LOW), encode_version_select(LOW))
    await eventually(lambda: gateways(hubs) == {_IDS[0]})
    far.close()
    await eventually(lambda: gateways(hubs) == {b""})
