"""hub.js subscribes: matching, shared prefixes, confirmations, refusals, and iteration with a bounded buffer."""

from __future__ import annotations

import pytest

from tests.console.engine import Engine
from tests.console.scripted_hub import ScriptedHub


async def test_a_message_is_given_once_to_each_subscription_that_matches(engine: Engine) -> None:
    result = await engine.evaluate("""
        start();
        const seen = {one: [], two: [], all: []};
        const subscribe = (name, prefixes) =>
          client.subscribe(prefixes, ({topic, value}) => seen[name].push([topic, value]));
        const subscriptions = [subscribe("one", ["/a", "/a/b"]), subscribe("two", "/a/"), subscribe("all", "")];
        await Promise.all(subscriptions.map(({confirmed}) => confirmed));
        ["/a", "/ab", "/a/b", "/c"].forEach((topic, index) => client.publish(topic, index));
        client.subscribe("/end", collect);
        client.publish("/end", 0);
        await until(() => got.length >= 1);
        return seen;
    """)
    assert result["one"] == [["/a", 0], ["/ab", 1], ["/a/b", 2]]
    assert result["two"] == [["/a/b", 2]]
    assert result["all"] == [["/a", 0], ["/ab", 1], ["/a/b", 2], ["/c", 3], ["/end", 0]]


async def test_a_prefix_goes_to_the_hub_once_however_many_share_it(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        const first = client.subscribe(["/a/", "/b/"], collect);
        const second = client.subscribe("/a/", collect);
        await first.confirmed;
        await second.confirmed;
        await first.unsubscribe();
        await second.unsubscribe();
        await second.unsubscribe();
    """)
    told = [(message["type"], message["prefixes"]) for _, message in hub.received]
    assert told == [("subscribe", ["/a/", "/b/"]), ("unsubscribe", ["/b/"]), ("unsubscribe", ["/a/"])]


async def test_unsubscribing_stops_the_calls_at_once(engine: Engine) -> None:
    result = await engine.evaluate("""
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


async def test_confirmed_waits_for_the_hub(engine: Engine, hub: ScriptedHub) -> None:
    hub.confirms = False
    await engine.evaluate("""
        await start().ready();
        globalThis.settled = [];
        globalThis.subscriptions = ["/a", "/a"].map((prefix) => client.subscribe(prefix, collect));
        subscriptions.forEach(({confirmed}, index) => confirmed.then(() => settled.push(index)));
    """)
    (message,) = await hub.wait_received("subscribe")
    assert await engine.evaluate("return settled") == []
    await hub.send(type="confirmed", request=message["request"])
    assert await engine.evaluate("await subscriptions[1].confirmed; return settled") == [0, 1]


async def test_a_refused_prefix_ends_its_subscription_only(engine: Engine, hub: ScriptedHub) -> None:
    hub.refusals["/secret"] = (1008, "not for you")
    result = await engine.evaluate("""
        await start().ready();
        const good = client.subscribe("/a", collect);
        const bad = client.subscribe(["/b", "/secret"], collect);
        const refused = await failure(() => bad.confirmed);
        await good.confirmed;
        await client.publish("/b", 1, {confirm: true});
        await client.publish("/a", 2, {confirm: true});
        return {refused, active: [good.active, bad.active], got, event: log.at(-1)};
    """)
    refusal = {"name": "HubError", "code": 1008, "text": "not for you"}
    assert result == {"refused": refusal, "active": [True, False], "got": [["/a", 2]], "event": ["error", refusal]}
    assert hub.of_type("unsubscribe")[-1]["prefixes"] == ["/b"]


async def test_a_prefix_refused_after_a_reconnect_costs_the_others_nothing(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        globalThis.subscriptions = ["/a", "/b", "/c"].map((prefix) => client.subscribe(prefix, collect));
        await Promise.all(subscriptions.map(({confirmed}) => confirmed));
    """)
    hub.refusals["/b"] = (1008, "no longer")
    hub.drop_connections()
    result = await engine.evaluate("""
        await until(() => count("error") >= 1);
        await client.publish("/c", 1, {confirm: true});
        return [subscriptions.map(({active}) => active), got, log.at(-1)[1].text, client.statistics().prefixes];
    """)
    assert result == [[True, False, True], [["/c", 1]], "no longer", 2]


async def test_unsubscribing_before_the_confirmation_rejects_it(engine: Engine, hub: ScriptedHub) -> None:
    hub.confirms = False
    result = await engine.evaluate("""
        await start().ready();
        const subscription = client.subscribe("/a", collect);
        subscription.unsubscribe();
        return failure(() => subscription.confirmed);
    """)
    assert result == {"name": "HubError", "code": 1000, "text": "unsubscribed before the hub confirmed"}


async def test_a_callback_that_throws_harms_nobody_else(engine: Engine) -> None:
    result = await engine.evaluate("""
        start();
        client.subscribe("/a", ({value}) => { throw new RangeError(`no ${value}`); });
        const other = client.subscribe("/a", collect);
        await other.confirmed;
        client.publish("/a", 1);
        client.publish("/a", 2);
        await until(() => got.length >= 2);
        return [got, log.slice(1)];
    """)
    errors = [["error", {"name": "RangeError", "code": None, "text": f"no {number}"}] for number in (1, 2)]
    assert result == [[["/a", 1], ["/a", 2]], errors]


async def test_what_the_hub_dropped_is_told_at_its_place(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        start();
        client.on("dropped", (lost) => collect({topic: "dropped", value: lost}));
        await client.subscribe("/a", collect).confirmed;
    """)
    await hub.send(type="messages", topic="/a", values=[1, 2])
    await hub.send(type="dropped", count=40)
    await hub.send(type="messages", topic="/a", values=[43])
    result = await engine.evaluate("""
        await until(() => got.length >= 4);
        return [got, client.statistics().droppedMessages, client.statistics().receivedMessages];
    """)
    assert result == [[["/a", 1], ["/a", 2], ["dropped", 40], ["/a", 43]], 40, 3]


async def test_messages_can_be_iterated_over(engine: Engine, hub: ScriptedHub) -> None:
    result = await engine.evaluate("""
        start();
        const stream = client.messages("/a");
        await stream.confirmed;
        for (const value of [1, 2, 3]) client.publish("/a", value);
        const seen = [];
        for await (const {topic, value} of stream) {
          seen.push([topic, value]);
          if (value === 2) break;
        }
        return [seen, (await stream.next()).done, client.statistics().prefixes];
    """)
    assert result == [[["/a", 1], ["/a", 2]], True, 0]
    assert [message["prefixes"] for message in hub.of_type("unsubscribe")] == [["/a"]]


@pytest.mark.parametrize(("options", "left"), [("{bufferMessages: 3}", 3), ("{bufferBytes: 2500}", 2)])
async def test_a_loop_that_is_too_slow_loses_the_oldest_and_is_told_how_many(
    engine: Engine, options: str, left: int
) -> None:
    result = await engine.evaluate(f"""
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


async def test_a_long_iteration_keeps_order_and_loses_nothing_in_time(engine: Engine) -> None:
    result = await engine.evaluate("""
        start();
        const stream = client.messages("/a", {bufferMessages: 50});
        await stream.confirmed;
        const seen = [];
        for (let round = 0; round < 40; round += 1) {
          for (let value = 0; value < 30; value += 1) client.publish("/a", round * 30 + value);
          while (seen.length < (round + 1) * 30 - 7 * (round < 39)) seen.push((await stream.next()).value.value);
        }
        return [seen.every((value, index) => value === index), seen.length, stream.dropped];
    """)
    assert result == [True, 1200, 0]


async def test_an_iteration_over_a_refused_prefix_throws_once(engine: Engine, hub: ScriptedHub) -> None:
    hub.refusals["/secret"] = (1008, "not for you")
    result = await engine.evaluate("""
        start();
        const stream = client.messages("/secret");
        return [await failure(() => stream.next()), await stream.next()];
    """)
    assert result[0] == {"name": "HubError", "code": 1008, "text": "not for you"}
    assert result[1]["done"] is True


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("client.subscribe('/a')", "the callback is no function"),
        ("client.subscribe([], collect)", "no prefix; the empty text matches every topic"),
        ("client.subscribe([null], collect)", "a prefix is text, not object"),
        ("client.messages('/\\u0000')", "a prefix has neither control characters nor lone surrogates"),
        ("client.subscribe('x'.repeat(1025), collect)", "a prefix is at most 1024 bytes long"),
    ],
)
async def test_what_cannot_be_subscribed_to_is_refused_at_the_call(engine: Engine, call: str, text: str) -> None:
    result = await engine.evaluate(f"start(); return [await failure(() => {call}), client.statistics().prefixes]")
    assert result == [{"name": "TypeError", "code": None, "text": text}, 0]


async def test_many_prefixes_travel_in_several_messages(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        start();
        await client.subscribe(Array.from({length: 10000}, (_, number) => `/p/${number}/`), collect).confirmed;
        client.publish("/p/9999/x", 1);
        await until(() => got.length >= 1);
    """)
    assert [len(message["prefixes"]) for message in hub.of_type("subscribe")] == [1000] * 10
