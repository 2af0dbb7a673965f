"""hub.js publishes: batches, order, confirmations, and the bounded buffer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.engine import Engine
from tests.console.scripted_hub import ScriptedHub


def contents(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    return [(message["topic"], message["values"]) for message in messages]


async def test_values_of_one_topic_and_turn_leave_as_one_batch(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        client.publish("/a", 1);
        client.publish("/a", {two: [2, null]});
        client.publish("/a", "three");
        await new Promise((resolve) => setTimeout(resolve));
        client.publish("/a", 4);
    """)
    assert contents(await hub.wait_received("publish", 2)) == [("/a", [1, {"two": [2, None]}, "three"]), ("/a", [4])]


async def test_order_is_kept_over_all_topics(engine: Engine, hub: ScriptedHub) -> None:
    """A value never overtakes one of another topic: a change of topic ends the batch."""
    await engine.evaluate("""
        await start().ready();
        for (const [topic, value] of [["/a", 1], ["/a", 2], ["/b", 3], ["/a", 4]]) client.publish(topic, value);
    """)
    assert contents(await hub.wait_received("publish", 3)) == [("/a", [1, 2]), ("/b", [3]), ("/a", [4])]


async def test_a_batch_is_bounded_in_size(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        for (let number = 0; number < 200; number += 1) client.publish("/a", String(number).padStart(1000, "x"));
    """)
    await hub.wait_until(lambda hub: sum(len(it["values"]) for it in hub.of_type("publish")) == 200)
    batches = [message["values"] for message in hub.of_type("publish")]
    assert [int(value.lstrip("x")) for values in batches for value in values] == list(range(200))
    assert [len(values) for values in batches] == [65, 65, 65, 5]


async def test_a_hub_that_takes_little_gets_smaller_batches(engine: Engine, hub: ScriptedHub) -> None:
    hub.frame_bytes = 20_000
    await engine.evaluate("""
        await start().ready();
        for (let number = 0; number < 9; number += 1) client.publish("/a", "x".repeat(1000));
    """)
    await hub.wait_until(lambda hub: sum(len(it["values"]) for it in hub.of_type("publish")) == 9)
    assert [len(message["values"]) for message in hub.of_type("publish")] == [2, 2, 2, 2, 1]


async def test_the_value_is_taken_as_it_was_at_the_call(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        const value = {n: 1};
        client.publish("/a", value);
        value.n = 2;
    """)
    assert contents(await hub.wait_received("publish")) == [("/a", [{"n": 1}])]


async def test_a_confirmed_publish_resolves_when_the_hub_confirms(engine: Engine, hub: ScriptedHub) -> None:
    hub.confirms = False
    await engine.evaluate("""
        await start().ready();
        globalThis.settled = [];
        globalThis.promises = [1, 2].map((value) => client.publish("/a", value, {confirm: true}));
        promises.forEach((promise, index) => promise.then(() => settled.push(index)));
    """)
    (message,) = await hub.wait_received("publish")
    assert message["values"] == [1, 2]
    assert message["request"] > 0
    assert await engine.evaluate("return [settled, client.statistics().unconfirmed]") == [[], 1]
    await hub.send(type="confirmed", request=message["request"])
    assert await engine.evaluate("await Promise.all(promises); return settled") == [0, 1]


async def test_a_refused_publish_rejects_with_the_hubs_code_and_text(engine: Engine, hub: ScriptedHub) -> None:
    hub.refusals["$hub/x"] = (1008, "topics of the hub are not to be published")
    failures = await engine.evaluate("""
        await start().ready();
        const bad = [1, 2].map((value) => failure(() => client.publish("$hub/x", value, {confirm: true})));
        const good = failure(() => client.publish("/a", 3, {confirm: true}));
        return [...await Promise.all(bad), await good, log.length, client.statistics().state];
    """)
    refused = {"name": "HubError", "code": 1008, "text": "topics of the hub are not to be published"}
    assert failures == [refused, refused, None, 1, "open"]


async def test_an_unconfirmed_publish_that_is_refused_is_told_by_the_event(engine: Engine, hub: ScriptedHub) -> None:
    """Without a request the hub's error belongs to no call: it becomes an `error` event."""
    hub.refusals["$hub/x"] = (1008, "no")
    events = await engine.evaluate("""
        await start().ready();
        client.publish("$hub/x", 1);
        await until(() => count("error") >= 1);
        return [log.at(-1), client.statistics().errors];
    """)
    assert events == [["error", {"name": "HubError", "code": 1008, "text": "no"}], 1]


async def test_a_lost_connection_rejects_what_was_not_confirmed(engine: Engine, hub: ScriptedHub) -> None:
    """Whether the hub took it is unknown, so the promise says so, and the value is not sent twice."""
    hub.confirms = False
    await engine.evaluate("""
        await start().ready();
        globalThis.outcome = failure(() => client.publish("/a", 1, {confirm: true}));
    """)
    await hub.wait_received("publish")
    hub.drop_connections()
    hub.confirms = True
    outcome = await engine.evaluate("return await outcome")
    assert outcome["code"] == 1006
    await engine.evaluate("await client.ready(); await client.publish('/b', 2, {confirm: true})")
    assert contents(hub.of_type("publish")) == [("/a", [1]), ("/b", [2])]


async def test_what_is_published_without_a_connection_waits_for_one(engine: Engine, hub: ScriptedHub) -> None:
    hub.refused_connections = 2
    await engine.evaluate("""
        start();
        client.publish("/a", 1);
        client.publish("/b", 2);
        await Promise.resolve();
        await client.publish("/a", 3, {confirm: true});
    """)
    assert contents(hub.of_type("publish")) == [("/a", [1]), ("/b", [2]), ("/a", [3])]


async def test_the_buffer_is_bounded_while_there_is_no_connection(engine: Engine, hub: ScriptedHub) -> None:
    hub.refused_connections = 1
    result = await engine.evaluate("""
        start({outboundBytes: 10000, backoff: {baseMs: 3600000, capMs: 3600000, random: () => 1}});
        await until(() => count("reconnecting") >= 1);
        let taken = 0;
        let thrown = null;
        while (thrown === null) {
          try {
            client.publish("/a", "x".repeat(998));
            taken += 1;
          } catch (error) {
            thrown = plain(error);
          }
        }
        const rejected = await failure(() => client.publish("/a", "x".repeat(998), {confirm: true}));
        const held = client.statistics().outboundBytes;
        await client.close();
        return {taken, thrown, rejected, held, discarded: client.statistics().discardedMessages};
    """)
    full = {"name": "HubError", "code": 1013, "text": "the outbound buffer is full (outboundBytes: 10000)"}
    assert result["taken"] == 9
    assert result["thrown"] == result["rejected"] == full
    assert 9_000 <= result["held"] <= 10_000
    assert result["discarded"] == 9


async def test_the_buffer_is_bounded_while_the_hub_does_not_read(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("await start({outboundBytes: 2000000}).ready()")
    hub.reading.clear()
    result = await engine.evaluate("""
        const value = "x".repeat(60000);
        let taken = 0;
        for (let turn = 0; ; turn += 1) {
          try {
            client.publish("/a", value);
            taken += 1;
          } catch (error) {
            return {taken, code: error.code, held: client.statistics().outboundBytes};
          }
          await new Promise((resolve) => setTimeout(resolve));
        }
    """)
    assert result["code"] == 1013
    assert result["held"] <= 2_000_000 + 1_000
    hub.reading.set()
    await hub.wait_received("publish", result["taken"])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("client.publish('', 1)", "a topic is not empty"),
        ("client.publish(7, 1)", "a topic is text, not number"),
        ("client.publish('/a\\n', 1)", "a topic has neither control characters nor lone surrogates"),
        ("client.publish('/a\\ud800', 1)", "a topic has neither control characters nor lone surrogates"),
        ("client.publish('/' + 'é'.repeat(512), 1)", "a topic is at most 1024 bytes long"),
        ("client.publish('/a', undefined)", "a undefined has no JSON form"),
        ("client.publish('/a', () => 1, {confirm: true})", "a function has no JSON form"),
    ],
)
async def test_what_cannot_be_published_is_refused_at_the_call(
    engine: Engine, hub: ScriptedHub, call: str, text: str
) -> None:
    result = await engine.evaluate(f"""
        await start().ready();
        const thrown = await failure(() => {call});
        await client.publish("/fence", 0, {{confirm: true}});
        return thrown;
    """)
    assert result == {"name": "TypeError", "code": None, "text": text}
    assert contents(hub.of_type("publish")) == [("/fence", [0])]


async def test_a_value_larger_than_the_hub_takes_is_refused_at_the_call(engine: Engine, hub: ScriptedHub) -> None:
    """It would cost the connection; bytes of UTF-8 count, not characters."""
    hub.frame_bytes = 100_000
    codes = await engine.evaluate("""
        await start().ready();
        const tries = ["x".repeat(95000), "x".repeat(100000), "€".repeat(31000), "€".repeat(33400)];
        return Promise.all(tries.map((value) => failure(() => client.publish("/a", value, {confirm: true}))));
    """)
    assert [failure and failure["code"] for failure in codes] == [None, 1009, None, 1009]
    assert [len(message["values"][0]) for message in hub.of_type("publish")] == [95_000, 31_000]
