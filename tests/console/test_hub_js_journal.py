"""hub.js and the hub's journal: reading, confirmations, streams that are read from it, and consumers."""

from __future__ import annotations

import re
from pathlib import Path

from tests.console.node import Node, use
from tests.console.scripted_hub import ScriptedHub
from tests.hubs.hub import Hub


async def test_every_recorded_message_once_in_order_however_often_connections_are_cut(
    node: Node, recording: Hub
) -> None:
    await use(node, recording.url)
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
        for (let turn = 0; turn < 30; turn += 1) {
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
    assert result["whole"] == [True] * 10
    assert result["others"] == 0
    assert result["connections"] > 1, result


async def test_a_stream_that_is_overtaken_by_retention_goes_on_and_tells_how_much_is_missing(
    node: Node, hub: ScriptedHub
) -> None:
    await node.evaluate("""
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
    result = await node.evaluate("""
        const offsets = [];
        for (let count = 0; count < 2; count += 1) offsets.push((await stream.next()).value.offset);
        const told = log.filter(([name]) => name === "dropped");
        return {offsets, dropped: stream.dropped, told, errors: count("error")};
    """)
    assert result == {"offsets": [0, 7], "dropped": 6, "told": [["dropped", 6]], "errors": 0}


async def test_a_power_loss_and_retention(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
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
    result = await node.evaluate("""
        const offsets = [];
        for (let count = 0; count < 3; count += 1) offsets.push((await stream.next()).value.offset);
        return [offsets, log.filter(([name]) => ["cut", "dropped"].includes(name))];
    """)
    assert result == [[10, 8, 20], [["cut", {"from": 11, "to": 8}], ["dropped", 11]]]
    asked = [(fetch["start"], fetch.get("epoch", 0)) for fetch in hub.of_type("fetch")][:5]
    assert asked == [(10, 7), (11, 7), (8, 0), (9, 9), (20, 0)]


async def test_a_stream_of_another_journal_ends(node: Node, hub: ScriptedHub) -> None:
    await node.evaluate("""
        await start().ready();
        globalThis.stream = client.messages("/a", {fromOffset: 5, hub: "far"});
    """)
    (fetch,) = await hub.wait_received("fetch")
    assert (fetch["journal"], fetch["hub"]) == ("", "far")
    reach = {"start": 5, "next": 5, "first": 0, "head": 5, "epoch": 7}
    await hub.send(type="records", request=fetch["request"], records=[], journal="ab", **reach)
    (_, fetch) = await hub.wait_received("fetch", 2)
    await hub.send(type="error", request=fetch["request"], code=4011, text="another journal")
    result = await node.evaluate("return [await failure(() => stream.next()), count('error')]")
    assert (result[0]["code"], result[1]) == (4011, 1)


async def test_streams_at_the_end_of_the_journal_take_turns(node: Node, hub: ScriptedHub) -> None:
    """A hub lets 256 of a connection wait: 240 streams at most, so that reading goes on. One that ended is left out."""
    await node.evaluate("""
        await start().ready();
        globalThis.streams = Array.from({length: 248}, () => client.subscribe("/a", collect, {fromOffset: 0}));
    """)
    for number in range(248):
        fetch = (await hub.wait_received("fetch", number + 1))[number]
        await hub.send(
            type="records", request=fetch["request"], records=[], start=0, next=1, first=0, head=1, journal="ab"
        )
    await node.evaluate("await Promise.all(streams.map(({confirmed}) => confirmed))")
    waits = (await hub.wait_received("fetch", 488))[248:]
    assert [fetch["wait_ms"] for fetch in waits] == [10_000] * 240
    await node.evaluate(
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


async def test_a_stream_from_an_offset_waits_for_its_reader(node: Node, recording: Hub) -> None:
    await use(node, recording.url)
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


async def test_the_example_of_the_page_about_consumers(node: Node, recording: Hub) -> None:
    text = (Path(__file__).parents[2] / "docs" / "consumers.md").read_text()
    (block,) = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    await use(node, recording.url)
    body = block.replace('connect("ws://127.0.0.1:7401/v1/hub")', "start()").replace("console.log(", "shown.push(")
    body = body.replace('"/app/"))', '"/app/", { fromOffset: 0 }))')  # nobody has made the consumer before
    result = await node.evaluate(f"const shown = []; {body} return shown;")
    assert result == [0, "/app/orders", {"id": 19}, 1]


async def test_consuming_over_a_lost_connection(node: Node, recording: Hub) -> None:
    await use(node, recording.url)
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
