"""hub.js publishes, subscribes, asks and serves: batches, order, confirmations, refusals, bounded buffers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.node import Node
from tests.console.scripted_hub import ScriptedHub

SECRET = {"name": "HubError", "code": 1008, "text": "not for you"}
"""What refuses the topic or the prefix `/secret`."""


def contents(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    return [(message["topic"], message["values"]) for message in messages]


# Subscribing.


async def test_unsubscribing_stops_the_calls_at_once(node: Node, hub: ScriptedHub) -> None:
    result = await node.evaluate("""
        start();
        const subscription = client.subscribe("/a", (message) => {
          collect(message);
          if (message.value === 2) subscription.unsubscribe();
        });
        await subscription.confirmed;
        for (const value of [1, 2, 3]) client.publish("/a", value);
        await client.publish("/a", 4, {confirm: true});
        return [got, subscription.active, client.statistics().receivedMessages];
    """)
    assert result == [[["/a", 1], ["/a", 2]], False, 4]
    hub.confirms = False
    early = "const early = client.subscribe('/b', collect); early.unsubscribe();"
    result = await node.evaluate(f"{early} return failure(() => early.confirmed)")
    assert result == {"name": "HubError", "code": 1000, "text": "unsubscribed before the hub confirmed"}


async def test_confirmations_wait_for_the_hub(node: Node, hub: ScriptedHub) -> None:
    hub.confirms = False
    await node.evaluate("""
        await start().ready();
        globalThis.settled = [];
        globalThis.all = ["/a", "/a"].map((prefix) => client.subscribe(prefix, collect).confirmed);
        all.push(...[1, 2].map((value) => client.publish("/a", value, {confirm: true})));
        all.forEach((promise, index) => promise.then(() => settled.push(index)));
    """)
    (subscribed,), (published,) = await hub.wait_received("subscribe"), await hub.wait_received("publish")
    assert (published["values"], published["request"] > 0) == ([1, 2], True)
    assert await node.evaluate("return [settled, client.statistics().unconfirmed]") == [[], 2]
    await hub.send(type="confirmed", request=subscribed["request"])
    assert await node.evaluate("await all[1]; return settled") == [0, 1]
    await hub.send(type="confirmed", request=published["request"])
    assert await node.evaluate("await Promise.all(all); return settled") == [0, 1, 2, 3]


async def test_a_refusal_reaches_whoever_asked_and_costs_the_others_nothing(node: Node, hub: ScriptedHub) -> None:
    hub.refusals["/secret"] = (1008, "not for you")
    result = await node.evaluate("""
        await start().ready();
        const good = client.subscribe("/a", collect);
        const bad = client.subscribe(["/b", "/secret"], collect);
        const refused = await failure(() => bad.confirmed);
        await good.confirmed;
        await client.publish("/b", 1, {confirm: true});
        await client.publish("/a", 2, {confirm: true});
        const stream = client.messages("/secret");
        const published = [1, 2].map((value) => failure(() => client.publish("/secret", value, {confirm: true})));
        const all = [refused, await failure(() => stream.next()), ...await Promise.all(published)];
        client.publish("/secret", 1);
        const before = count("error");
        await until(() => count("error") > before);
        return {all, active: [good.active, bad.active], got, event: log.at(-1), done: (await stream.next()).done};
    """)
    assert result.pop("all") == [SECRET] * 4
    expected = {"active": [True, False], "got": [["/a", 2]], "event": ["error", SECRET], "done": True}
    assert result == expected, "without a request the hub's error belongs to no call: it is an event"
    assert hub.of_type("unsubscribe")[0]["prefixes"] == ["/b"]


async def test_a_prefix_refused_after_a_reconnect_costs_the_others_nothing(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        globalThis.subscriptions = ["/a", "/b", "/c"].map((prefix) => client.subscribe(prefix, collect));
        await Promise.all(subscriptions.map(({confirmed}) => confirmed));
    """)
    hub.refusals["/b"] = (1008, "no longer")
    hub.drop_connections()
    result = await node.evaluate("""
        await until(() => count("error") >= 1);
        await client.publish("/c", 1, {confirm: true});
        return [subscriptions.map(({active}) => active), got, log.at(-1)[1].text, client.statistics().prefixes];
    """)
    assert result == [[True, False, True], [["/c", 1]], "no longer", 2]


async def test_a_callback_that_throws_harms_nobody_else(node: Node) -> None:
    result = await node.evaluate("""
        start();
        client.subscribe("/a", ({value}) => { throw new RangeError(`no ${value}`); });
        await client.subscribe("/a", collect).confirmed;
        client.publish("/a", 1);
        client.publish("/a", 2);
        await until(() => got.length >= 2);
        return [got, log.slice(1)];
    """)
    errors = [["error", {"name": "RangeError", "code": None, "text": f"no {number}"}] for number in (1, 2)]
    assert result == [[["/a", 1], ["/a", 2]], errors]


async def test_what_the_hub_dropped_is_told_at_its_place(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        start();
        client.on("dropped", (lost) => collect({topic: "dropped", value: lost}));
        await client.subscribe("/a", collect).confirmed;
    """)
    await hub.send(type="messages", topic="/a", values=[1, 2])
    await hub.send(type="dropped", count=40)
    await hub.send(type="messages", topic="/a", values=[43])
    result = await node.evaluate("""
        await until(() => got.length >= 4);
        return [got, client.statistics().droppedMessages, client.statistics().receivedMessages];
    """)
    assert result == [[["/a", 1], ["/a", 2], ["dropped", 40], ["/a", 43]], 40, 3]


# Iterating.


@pytest.mark.parametrize(("options", "left"), [("{bufferMessages: 3}", 3), ("{bufferBytes: 2500}", 2)])
async def test_a_loop_that_is_too_slow_loses_the_oldest_and_is_told_how_many(
    node: Node, options: str, left: int
) -> None:
    result = await node.evaluate(f"""
        start();
        const stream = client.messages("/a", {options});
        await stream.confirmed;
        for (let value = 1; value <= 10; value += 1) client.publish("/a", [value, "x".repeat(1000)]);
        await client.publish("/fence", 0, {{confirm: true}});
        client.close();
        const seen = [];
        for await (const {{value}} of stream) seen.push(value[0]);
        return [seen, stream.dropped, client.statistics().skippedMessages];
    """)
    assert result == [list(range(11 - left, 11)), 10 - left, 10 - left]


# Publishing.


@pytest.mark.parametrize(
    ("frame_bytes", "calls", "batches"),
    [
        (  # as it was at the call, and what is said in one turn goes together
            1 << 24,
            "const it = {n: 1}; client.publish('/a', it); it.n = 2; publish('/a', 2); await turn(); publish('/a', 4)",
            [("/a", [{"n": 1}, 2]), ("/a", [4])],
        ),
        (  # a value never overtakes one of another topic
            1 << 24,
            "for (const [topic, value] of [['/a', 1], ['/a', 2], ['/b', 3], ['/a', 4]]) client.publish(topic, value)",
            [("/a", [1, 2]), ("/b", [3]), ("/a", [4])],
        ),
        (  # neither labels nor names
            1 << 24,
            "for (const it of [{labels: ['b', 'a']}, {labels: ['a', 'b']}, {to: 'a.b'}, {}]) publish('/a', 1, it)",
            [("/a", [1, 1]), ("/a", [1]), ("/a", [1])],
        ),
        (
            1 << 24,
            "for (let n = 0; n < 200; n += 1) client.publish('/a', 'x'.repeat(1000))",
            [("/a", ["x" * 1000] * size) for size in (65, 65, 65, 5)],
        ),
        (
            20_000,
            "for (let n = 0; n < 9; n += 1) client.publish('/a', 'x'.repeat(1000))",
            [("/a", ["x" * 1000] * size) for size in (2, 2, 2, 2, 1)],
        ),
    ],
    ids=["turns", "topics", "labels", "sizes", "a hub that takes little"],
)
async def test_batches(node: Node, hub: ScriptedHub, frame_bytes: int, calls: str, batches: list[Any]) -> None:
    hub.frame_bytes = frame_bytes
    await node.evaluate(f"""
        await start().ready();
        const turn = () => new Promise((resolve) => setTimeout(resolve));
        const publish = (...given) => client.publish(...given);
        {calls}
    """)
    assert contents(await hub.wait_received("publish", len(batches))) == batches


async def test_a_lost_connection_rejects_what_was_not_confirmed(node: Node, hub: ScriptedHub) -> None:
    """Whether the hub took it is unknown, so the promise says so, and the value is not sent twice."""
    hub.confirms = False
    await node.evaluate("""
        await start().ready();
        globalThis.outcome = failure(() => client.publish("/a", 1, {confirm: true}));
    """)
    await hub.wait_received("publish")
    hub.drop_connections()
    hub.confirms = True
    assert (await node.evaluate("return await outcome"))["code"] == 1006
    await node.evaluate("await client.ready(); await client.publish('/b', 2, {confirm: true})")
    assert contents(hub.of_type("publish")) == [("/a", [1]), ("/b", [2])]


async def test_the_buffer_is_bounded_while_there_is_no_connection(node: Node, hub: ScriptedHub) -> None:
    hub.refused_connections = 1
    result = await node.evaluate("""
        start({outboundBytes: 10000, backoff: {baseMs: 3600000, capMs: 3600000, random: () => 1}});
        await until(() => count("reconnecting") >= 1);
        let taken = 0;
        let thrown = null;
        while (thrown === null) {
          try {
            client.publish("/a", "x".repeat(998));
            taken += 1;
          } catch (error) { thrown = plain(error); }
        }
        const rejected = await failure(() => client.publish("/a", "x".repeat(998), {confirm: true}));
        const held = client.statistics().outboundBytes;
        await client.close();
        return {taken, thrown, rejected, held, discarded: client.statistics().discardedMessages};
    """)
    full = {"name": "HubError", "code": 1013, "text": "the outbound buffer is full (outboundBytes: 10000)"}
    assert 9_000 <= result.pop("held") <= 10_000
    assert result == {"taken": 9, "thrown": full, "rejected": full, "discarded": 9}


async def test_the_buffer_is_bounded_while_the_hub_does_not_read(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start({outboundBytes: 2000000}).ready()")
    hub.reading.clear()
    result = await node.evaluate("""
        for (let taken = 0; ; taken += 1) {
          const full = await failure(() => client.publish("/a", "x".repeat(60000)));
          if (full !== null) return {taken, code: full.code, held: client.statistics().outboundBytes};
          await new Promise((resolve) => setTimeout(resolve));
        }
    """)
    assert (result["code"], result["held"] <= 2_001_000) == (1013, True)
    hub.reading.set()
    await hub.wait_received("publish", result["taken"])


# What is refused at the call.

REFUSED = {
    "client.subscribe('/a')": "the callback is no function",
    "client.subscribe([], collect)": "no prefix; the empty text matches every topic",
    "client.subscribe([null], collect)": "a prefix is text, not object",
    "client.subscribe('x'.repeat(1025), collect)": "a prefix is at most 1024 bytes long",
    "client.subscribe({labels: 'a'}, collect)": "labels are a list",
    "client.subscribe({labels: [1]}, collect)": "label",
    "client.publish('/a', 1, {labels: ['\\n']})": "label",
    "client.claim('a..b')": "no service name: a..b",
    "client.claim('1.a')": "no service name: 1.a",
    "client.claim(`a.${'b'.repeat(255)}`)": "no service name",
    "client.publish(7, 1)": "a topic is text, not number",
    "client.publish('/a\\ud800', 1)": "a topic has neither control characters nor lone surrogates",
    "client.publish('/' + 'é'.repeat(512), 1)": "a topic is at most 1024 bytes long",
    "client.publish('/a', undefined)": "a undefined has no JSON form",
    "client.publish('/a', () => 1, {confirm: true})": "a function has no JSON form",
    "client.request('/a', undefined)": "a undefined has no JSON form",
    "client.serve('/a', 'no function')": "",
    "(client.serve('/a', () => 1), client.serve(['/b', '/a'], () => 1))": "",
}


async def test_what_cannot_be_said_is_refused_at_the_call(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start().ready()")
    for call, text in REFUSED.items():
        thrown = await node.evaluate(f"return failure(() => {call})")
        assert (thrown["name"], thrown["code"], text in thrown["text"]) == ("TypeError", None, True), (call, thrown)
    await node.evaluate("await client.publish('/fence', 0, {confirm: true})")
    assert await node.evaluate("return client.statistics().prefixes") == 0
    assert contents(hub.of_type("publish")) == [("/fence", [0])]
    assert hub.of_type("subscribe") == []


async def test_a_value_larger_than_the_hub_takes_is_refused_at_the_call(node: Node, hub: ScriptedHub) -> None:
    """It would cost the connection; bytes of UTF-8 count, not characters."""
    hub.frame_bytes = 100_000
    codes = await node.evaluate("""
        await start().ready();
        const tries = ["x".repeat(95000), "x".repeat(100000), "€".repeat(31000), "€".repeat(33400)];
        return Promise.all(tries.map((value) => failure(() => client.publish("/a", value, {confirm: true}))));
    """)
    assert [failure and failure["code"] for failure in codes] == [None, 1009, None, 1009]
    assert [len(message["values"][0]) for message in hub.of_type("publish")] == [95_000, 31_000]


# With a hub.


async def test_what_is_asked_in_a_turn_is_one_message(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        for (const [topic, value] of [["/a", 1], ["/b", 2], ["/a", 3]]) client.request(topic, value, {timeoutMs: 900});
        client.request("org.example.Name", 4, {service: true});
    """)
    messages = await hub.wait_received("request", 3)
    assert [(one.get("topic", one.get("service")), one["request"], one["values"]) for one in messages] == [
        ("/a", 1, [1, 3]),
        ("/b", 3, [2]),
        ("org.example.Name", 4, [4]),
    ]
    assert "service" in messages[2]
    assert 0 < messages[0]["timeout_ms"] <= 900


async def test_a_lost_connection_ends_what_was_sent(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        client.serve("/served", () => 1);
        globalThis.first = failure(() => client.request("/a", 1));
    """)
    await hub.wait_received("request")
    await hub.wait_received("serve")
    hub.drop_connections()
    lost = await node.evaluate("""
        const lost = await first;
        globalThis.second = client.request("/a", 2);
        return lost;
    """)
    assert lost["code"] == 1006
    again = (await hub.wait_received("serve", 2))[1]
    assert again["prefixes"] == ["/served"]
    request = (await hub.wait_received("request", 2))[1]
    assert (request["values"], request["request"]) == ([2], 2)
    await hub.send(type="reply", request=1, value="late")
    await hub.send(type="reply", request=2, value="in time")
    assert await node.evaluate("return second") == "in time"


async def test_without_a_connection_time_is_kept(node: Node, hub: ScriptedHub) -> None:
    """What cannot be sent ends when its time is up; a hub that answers nothing is given up a little later."""
    hub.refused_connections = 10**6
    result = await node.evaluate("""
        start();
        return [await failure(() => client.request("/a", 1, {timeoutMs: 1})), client.statistics().outboundBytes];
    """)
    assert (result[0]["code"], result[1]) == (4104, 0)
    hub.refused_connections = 0
    result = await node.evaluate("""
        await client.close();
        await start({answerMs: 20000}).ready();
        const impatient = connect(url, {answerMs: 1000});
        const unanswered = await failure(() => impatient.request("/a", 1, {timeoutMs: 1}));
        await impatient.close();
        return unanswered;
    """)
    assert result["code"] == 4104


async def test_what_the_hub_tells_later(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        globalThis.claims = [client.claim("a.a"), client.claim("a.b", {queue: true}), client.claim("a.c")];
        await Promise.all(claims.map((claimed) => claimed.whenOwned()));
        await claims[2].release();
    """)
    await hub.send(type="name", name="a.a", standing="lost", text="too late")
    await hub.send(type="name", name="a.b", standing="queued", text="for now")
    await hub.send(type="name", name="a.c", standing="lost", text="long gone")
    result = await node.evaluate("""
        await until(() => count("error") >= 1);
        const unowned = await failure(() => claims[0].whenOwned());
        return {unowned, stand: claims.map(({standing, reason}) => [standing, reason])};
    """)
    assert result["unowned"] == {"name": "HubError", "code": 1008, "text": "too late"}
    assert result["stand"][:2] == [["ended", "too late"], ["queued", "for now"]]
    await hub.send(type="name", name="a.b", standing="owned")
    assert await node.evaluate("await claims[1].whenOwned(); return [claims[1].owned, count('error')]") == [True, 1]


async def test_lists_in_pages(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("await start().ready(); globalThis.listing = client.names('a.')")
    first = (await hub.wait_received("request"))[0]
    assert (first["topic"], first["values"]) == ("$hub/names", [{"prefix": "a.", "after": ""}])
    page = [{"name": f"a.n{number:03}", "labels": [], "owner": 1, "hub": "00" * 16} for number in range(1000)]
    await hub.send(type="reply", request=first["request"], value=page)
    second = (await hub.wait_received("request", 2))[1]
    assert second["values"] == [{"prefix": "a.", "after": "a.n999"}]
    await hub.send(type="reply", request=second["request"], value=page[:1])
    assert await node.evaluate("return (await listing).length") == 1001
