"""hub.js and the hub's journal: reading, confirmations, streams that are read from it, and consumers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.engine import Engine
from tests.console.node import Node
from tests.console.real_hub import RealHub, run_hub
from tests.console.scripted_hub import ScriptedHub


@pytest.fixture
def recording_hub(tmp_path: Path) -> Iterator[RealHub]:
    with run_hub("--journal", str(tmp_path / "journal")) as hub:
        yield hub


async def use(node: Node, hub: RealHub) -> None:
    await node.evaluate("globalThis.url = address", address=hub.url)


async def test_reading_and_confirming(node: Node, recording_hub: RealHub) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        const client = start();
        const offsets = await Promise.all([1, 2, 3].map((value) => client.publish("/a", value, {confirm: "recorded"})));
        client.publish("/b", "other");
        await client.publish("/b", "last", {confirm: "recorded"});
        const all = [], some = [];
        for await (const record of client.read()) {
          all.push([record.offset, record.time instanceof Date, record.topic, record.value]);
        }
        for await (const record of client.read("/a", {start: 1, end: 3})) some.push(record.value);
        const topics = [];
        for await (const record of client.read("", {columns: ["topic"]})) topics.push(record);
        return {offsets, all, some, topics};
    """)
    assert result["offsets"] == [0, 1, 2]
    assert result["all"] == [
        [0, True, "/a", 1],
        [1, True, "/a", 2],
        [2, True, "/a", 3],
        [3, True, "/b", "other"],
        [4, True, "/b", "last"],
    ]
    assert result["some"] == [2, 3]
    assert result["topics"] == [{"topic": topic} for topic in ("/a", "/a", "/a", "/b", "/b")]


async def test_every_recorded_message_once_in_order_however_often_connections_are_cut(
    node: Node, recording_hub: RealHub
) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        const sockets = new Set();
        let others = 0, cuts = 0;
        const Counted = class extends WebSocket {
          constructor(...given) {
            super(...given);
            others += [...sockets].filter((socket) => socket.readyState === WebSocket.OPEN).length;
            sockets.add(this);
          }
        };
        const publisher = start();
        const client = start({WebSocket: Counted});
        const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        const readers = [];
        let next = 0;
        const cut = () => {
          cuts += 1;
          for (const socket of sockets) socket.close();
          sockets.clear();
        };
        for (let turn = 0; turn < 60; turn += 1) {
          if (turn % 3 === 0) {
            const values = [];
            client.subscribe("/n", ({offset, value}) => values.push([offset, value]), {fromOffset: 0});
            readers.push(values);
          }
          for (let count = 0; count < 50; count += 1) publisher.publish("/n", next++);
          await publisher.publish("/n", next++, {confirm: "recorded"});
          if (Math.random() < 0.3) cut();
          await pause(5);
        }
        cut();
        while (readers.some((values) => values.length < next)) await pause(5);
        const isRight = ([offset, value], at) => offset === at && value === at;
        const isWhole = (values) => values.length === next && values.every(isRight);
        return {whole: readers.map(isWhole), others, cuts, connections: client.statistics().connections};
    """)
    assert result["whole"] == [True] * 20
    assert result["others"] == 0
    assert result["connections"] > 1, result


async def test_a_stream_that_is_overtaken_by_retention_goes_on_and_tells_how_much_is_missing(
    engine: Engine, hub: ScriptedHub
) -> None:
    await engine.evaluate("""
        await start().ready();
        globalThis.stream = client.messages("/a", {fromOffset: 0});
    """)

    async def answer(records: list[int], head: int) -> None:
        (*_, fetch) = hub.of_type("fetch")
        found = [{"offset": one, "time_ms": 0, "topic": "/a", "value": one} for one in records]
        reach = {"start": fetch["start"], "next": head, "first": 0, "head": head, "journal": "ab"}
        await hub.send(type="records", request=fetch["request"], records=found, **reach)

    await hub.wait_received("fetch")
    await answer([0], 1)
    await hub.wait_received("fetch", 2)
    hub.drop_connections()
    (*_, fetch) = await hub.wait_received("fetch", 3)
    assert (fetch["start"], fetch["journal"], fetch["wait_ms"] > 0) == (1, "ab", True)
    await hub.send(type="error", request=fetch["request"], code=4011, text="deleted", offset=7)
    (*_, fetch) = await hub.wait_received("fetch", 4)
    assert fetch["start"] == 7
    await answer([7], 8)
    result = await engine.evaluate("""
        const offsets = [];
        for (let count = 0; count < 2; count += 1) offsets.push((await stream.next()).value.offset);
        const told = log.filter(([name]) => name === "dropped");
        return {offsets, dropped: stream.dropped, told, errors: count("error")};
    """)
    assert result == {"offsets": [0, 7], "dropped": 6, "told": [["dropped", 6]], "errors": 0}


async def test_a_power_loss_and_retention(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        globalThis.stream = client.messages("/a", {fromOffset: 10, epoch: 7});
    """)

    async def answer(start: int, epoch: int) -> None:
        (*_, fetch) = hub.of_type("fetch")
        found = [{"offset": start, "time_ms": 0, "topic": "/a", "value": start}]
        reach = {"start": start, "next": start + 1, "first": 0, "head": start + 1, "journal": "ab", "epoch": epoch}
        await hub.send(type="records", request=fetch["request"], records=found, **reach)

    await hub.wait_received("fetch")
    await answer(10, 7)
    for number, first in ((2, 8), (4, 20)):  # less than what it has read, and more
        (*_, fetch) = await hub.wait_received("fetch", number)
        await hub.send(type="error", request=fetch["request"], code=4011, text="deleted", offset=first)
        await hub.wait_received("fetch", number + 1)
        await answer(first, 9)
    result = await engine.evaluate("""
        const offsets = [];
        for (let count = 0; count < 3; count += 1) offsets.push((await stream.next()).value.offset);
        return [offsets, log.filter(([name]) => ["cut", "dropped"].includes(name))];
    """)
    assert result == [[10, 8, 20], [["cut", {"from": 11, "to": 8}], ["dropped", 11]]]
    asked = [(fetch["start"], fetch.get("epoch", 0)) for fetch in hub.of_type("fetch")][:5]
    assert asked == [(10, 7), (11, 7), (8, 0), (9, 9), (20, 0)]


async def test_a_stream_of_another_journal_ends(engine: Engine, hub: ScriptedHub) -> None:
    await engine.evaluate("""
        await start().ready();
        globalThis.stream = client.messages("/a", {fromOffset: 5});
    """)
    (fetch,) = await hub.wait_received("fetch")
    reach = {"start": 5, "next": 5, "first": 0, "head": 5, "epoch": 7}
    await hub.send(type="records", request=fetch["request"], records=[], journal="ab", **reach)
    (_, fetch) = await hub.wait_received("fetch", 2)
    await hub.send(type="error", request=fetch["request"], code=4011, text="another journal")
    result = await engine.evaluate("return [await failure(() => stream.next()), count('error')]")
    assert (result[0]["code"], result[1]) == (4011, 1)


async def test_streams_at_the_end_of_the_journal_take_turns(engine: Engine, hub: ScriptedHub) -> None:
    """A hub lets 256 of a connection wait: 240 streams at most, so that reading goes on. One that ended is left out."""
    await engine.evaluate("""
        await start().ready();
        globalThis.streams = Array.from({length: 248}, () => client.subscribe("/a", collect, {fromOffset: 0}));
    """)
    for number in range(248):
        fetch = (await hub.wait_received("fetch", number + 1))[number]
        await hub.send(
            type="records", request=fetch["request"], records=[], start=0, next=1, first=0, head=1, journal="ab"
        )
    await engine.evaluate("await Promise.all(streams.map(({confirmed}) => confirmed))")
    waits = (await hub.wait_received("fetch", 488))[248:]
    assert [fetch["wait_ms"] for fetch in waits] == [10_000] * 240
    await engine.evaluate(
        "globalThis.reading = client.read('/a').next(); streams.slice(240, 247).forEach((one) => one.unsubscribe())"
    )
    (*_, read) = await hub.wait_received("fetch", 489)
    assert "wait_ms" not in read
    for fetch in waits[:2]:
        await hub.send(
            type="records", request=fetch["request"], records=[], start=1, next=1, first=0, head=1, journal="ab"
        )
    await hub.wait_received("fetch", 491)  # of the last of the streams, and of one whose wait was over
    assert len(hub.of_type("fetch")) == 491


async def test_a_stream_from_an_offset_waits_for_its_reader(node: Node, recording_hub: RealHub) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        const client = start();
        for (let value = 0; value < 3000; value += 1) client.publish("/s", "x".repeat(200) + value);
        await client.publish("/s", "end", {confirm: "recorded"});
        let count = 0;
        const messages = client.messages("/s", {fromOffset: 0, bufferMessages: 10});
        for await (const {value} of messages) {
          count += 1;
          if (value === "end") break;
        }
        return [count, client.statistics().skippedMessages];
    """)
    assert result == [3001, 0]


async def test_what_is_recorded_with_its_offset(node: Node, recording_hub: RealHub) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        const client = start();
        await client.publish("/r", "before", {confirm: "recorded"});
        const fresh = [], all = [];
        const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
        const rowOf = ({offset, time, topic, value}) => [offset, time instanceof Date, topic, value];
        const take = (list) => (message) => list.push(rowOf(message));
        const subscriptions = [
          client.subscribe("/r", take(fresh), {recorded: true}),
          client.subscribe("/r", take(all), {recorded: true, fromOffset: 0}),
        ];
        await Promise.all(subscriptions.map(({confirmed}) => confirmed));
        client.publish("/other", 1);
        for (const value of [1, 2]) {
          await client.publish("/r", value, {confirm: "recorded"});
          while (all.at(-1)?.[3] !== value || fresh.at(-1)?.[3] !== value) await pause(5);
        }
        for await (const message of client.messages("/r", {recorded: true, fromOffset: 3})) {
          take(fresh)(message);
          break;
        }
        await Promise.all(subscriptions.map((subscription) => subscription.unsubscribe()));
        return {fresh, all};
    """)
    before, one, two = [0, True, "/r", "before"], [2, True, "/r", 1], [3, True, "/r", 2]
    assert result["fresh"] == [one, two, two]
    assert result["all"] == [before, one, two]


async def test_what_is_not_there_is_told(node: Node, recording_hub: RealHub) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        const client = start();
        const read = await client.read("", {start: 7}).next().catch((error) => error);
        const subscription = client.subscribe("/a", collect, {fromOffset: 7});
        const subscribed = await failure(() => subscription.confirmed);
        return [[read.code, read.first], [subscribed.code, subscription.active]];
    """)
    assert result == [[4011, 0], [4011, False]]


async def test_without_a_journal(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        const client = start();
        const read = await failure(() => client.read().next());
        const published = await failure(() => client.publish("/a", 1, {confirm: "recorded"}));
        return [read.code, published.code, published.text.includes("--journal")];
    """)
    assert result == [1008, 1008, True]


async def test_the_journal_of_another_hub(node: Node, tmp_path: Path) -> None:
    peer = f"unix://{tmp_path}/far.sock"
    recording = ("--journal", str(tmp_path / "journal"), "--listen", peer, "--name", "far")
    with run_hub(*recording) as far, run_hub("--peer", peer, "--journal-of", "far") as near:
        await use(node, far)
        await node.evaluate("globalThis.source = start()")
        await use(node, near)
        result = await node.evaluate("""
            await Promise.all([0, 1, 2].map((value) => source.publish("/a", value, {confirm: "recorded"})));
            const client = start();
            const all = async (options) => {
              const found = [];
              for await (const record of client.read("/a", options)) found.push([record.offset, record.value]);
              return found;
            };
            const linked = () => all({hub: "far"}).catch(() => new Promise((resolve) => setTimeout(resolve, 20)));
            let named;
            while (named === undefined) named = await linked();
            const unnamed = await all();
            const followed = [];
            const subscription = client.subscribe("/a", ({value}) => followed.push(value), {fromOffset: 2, hub: "far"});
            await subscription.confirmed;
            await source.publish("/a", 3, {confirm: "recorded"});
            while (followed.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
            const unknown = await failure(() => client.read("/a", {hub: "nobody"}).next());
            const alone = await failure(async () => client.subscribe("/a", collect, {hub: "far"}));
            return {named, unnamed, followed, unknown: unknown.code, alone: alone.text};
        """)
    assert result["named"] == result["unnamed"] == [[0, 0], [1, 1], [2, 2]]
    assert result["followed"] == [2, 3]
    assert result["unknown"] == 1007
    assert "give fromOffset" in result["alone"]


async def test_consuming(node: Node, recording_hub: RealHub) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        const client = start();
        for (let value = 0; value < 10; value += 1) client.publish(`/c/${value % 2}`, {value});
        await client.publish("/other", "x", {confirm: "recorded"});
        const take = async (count, acknowledged, ...of) => {
          const found = [];
          for await (const message of client.consume("c", ...of)) {
            found.push([message.offset, message.topic, message.value.value]);
            if (acknowledged) message.ack();
            if (found.length === count) return {found, deliveries: message.deliveries, time: message.time};
          }
        };
        const first = await take(3, true, "/c/", {fromTime: new Date(1000), key: "all"});
        const again = await take(2, false);
        const rest = await take(7, true);
        let refused;
        try {
          await client.consume("none").next();
        } catch (error) { refused = [error.name, error.message]; }
        return {first: first.found, again: again.found, rest: rest.found, time: first.time instanceof Date, refused};
    """)
    rows = [[value, f"/c/{value % 2}", value] for value in range(10)]
    assert (result["first"], result["again"], result["rest"]) == (rows[:3], rows[3:5], rows[3:])
    assert result["time"]
    assert result["refused"] == ["RequestError", "there is no consumer 'none'; say which prefixes it is to have"]


async def test_what_a_program_cannot_do_now(node: Node, recording_hub: RealHub) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        const client = start();
        for (let value = 0; value < 3; value += 1) await client.publish("/c/0", value, {confirm: "recorded"});
        const messages = client.consume("c", "/c/", {fromOffset: 0});
        const next = async () => (await messages.next()).value;
        const found = [];
        for (const delayS of [0, 0.01, 3600]) {
          const message = await next();
          message.inProgress();
          found.push([message.value, message.deliveries]);
          await message.nak({delayS});
        }
        await client.publish("/c/1", 3, {confirm: "recorded"});
        const other = await next();
        found.push([other.value, other.deliveries]);
        other.ack();
        let refused;
        try { await other.nak({delayS: -1}); } catch (error) { refused = error.name; }
        await other.nak();
        await messages.return();
        return {found, refused};
    """)
    assert result == {"found": [[0, 1], [0, 2], [0, 3], [3, 1]], "refused": "TypeError"}


async def test_the_example_of_the_page_about_consumers(node: Node, recording_hub: RealHub) -> None:
    text = (Path(__file__).parents[2] / "docs" / "consumers.md").read_text()
    (block,) = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    await use(node, recording_hub)
    body = block.replace('connect("ws://127.0.0.1:7401/v1/hub")', "start()").replace("console.log(", "shown.push(")
    body = body.replace('"/app/"))', '"/app/", { fromOffset: 0 }))')  # nobody has made the consumer before
    result = await node.evaluate(f"const shown = []; {body} return shown;")
    assert result == [0, "/app/orders", {"id": 19}, 1]


async def test_consuming_over_a_lost_connection(node: Node, recording_hub: RealHub) -> None:
    await use(node, recording_hub)
    result = await node.evaluate("""
        let socket;
        const Kept = class extends WebSocket {
          constructor(...given) { super(...given); socket = this; }
        };
        const client = start({WebSocket: Kept});
        let hasCut = false;
        for (let value = 0; value < 100; value += 1) client.publish("/c", value);
        await client.publish("/c", 100, {confirm: "recorded"});
        const found = [];
        for await (const {value, ack} of client.consume("c", "/c", {fromOffset: 0, prefetch: 10})) {
          found.push(value);
          ack();
          if (value === 30 && !hasCut) { hasCut = true; socket.close(); }
          if (value === 100) break;
        }
        const firsts = found.filter((value, at) => found.indexOf(value) === at);
        return {firsts, extra: found.length - firsts.length};
    """)
    assert result["firsts"] == list(range(101))
    assert result["extra"] <= 10
