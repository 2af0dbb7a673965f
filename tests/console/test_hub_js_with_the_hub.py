"""hub.js and the real hub: what each side's own tests take from the document, both do with each other."""

from __future__ import annotations

import json
from pathlib import Path

from websockets.asyncio.client import connect

from tests.console.browser import Page
from tests.console.node import Node
from tests.console.real_hub import RealHub, run_hub


async def use(engine: Node | Page, hub: RealHub) -> None:
    await engine.evaluate("globalThis.url = address", address=hub.url)


async def test_values_of_all_kinds_come_back_as_they_were(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    values = [None, True, 0, -1.5, 2**53 - 1, "", "é \u2028 \U0001f600", [], [[1], {}], {"a": {"b": [None]}}]
    result = await node.evaluate(
        """
        start({name: "round trip"});
        await client.subscribe("/kinds/", collect).confirmed;
        for (const value of values) client.publish("/kinds/x", value);
        await until(() => got.length >= values.length);
        return got;
        """,
        values=values,
    )
    assert result == [["/kinds/x", value] for value in values]


async def test_many_values_on_many_topics_arrive_in_order(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        start({queue: {messages: 100000}});
        let next = 0;
        let wrong = 0;
        await client.subscribe("/many/", ({topic, value}) => {
          wrong += value !== next || topic !== `/many/${value % 100}`;
          next += 1;
          if (next === 50000) collect({topic, value});
        }).confirmed;
        for (let value = 0; value < 50000; value += 1) {
          const sent = client.publish(`/many/${value % 100}`, value, {confirm: value % 1000 === 999});
          if (sent) await sent;
        }
        await until(() => got.length >= 1);
        return {next, wrong, dropped: client.statistics().droppedMessages};
    """)
    assert result == {"next": 50_000, "wrong": 0, "dropped": 0}


async def test_too_many_prefixes_are_refused_and_the_others_stay(node: Node) -> None:
    with run_hub("--limits-prefixes-per-client", "3") as hub:
        await use(node, hub)
        result = await node.evaluate("""
            start();
            const good = client.subscribe(["/a", "/b"], collect);
            await good.confirmed;
            const bad = client.subscribe(["/c", "/d"], collect);
            const refused = await failure(() => bad.confirmed);
            const late = client.subscribe("/e", collect);
            await late.confirmed;
            for (const topic of ["/a", "/c", "/d", "/e"]) client.publish(topic, 0);
            await until(() => got.length >= 2);
            return [refused.code, good.active, bad.active, late.active, got.map(([topic]) => topic)];
        """)
    assert result == [1008, True, False, True, ["/a", "/e"]]


async def test_every_message_is_received_or_told_as_dropped(node: Node, real_hub: RealHub, tmp_path: Path) -> None:
    await use(node, real_hub)
    await node.evaluate("""
        start({queue: {messages: 50, overflow: "drop-oldest"}});
        globalThis.numbers = [];
        await client.subscribe("/flood", ({value}) => {
          numbers.push(value.number);
          if (value.number === 3000) collect({topic: "", value});
        }).confirmed;
        const {existsSync} = await import("node:fs");
        globalThis.standStill = (flag) => { while (!existsSync(flag)); };
    """)
    flag = tmp_path / "go-on"
    await node.evaluate("setTimeout(() => standStill(flag))", flag=str(flag))
    async with connect(real_hub.url, subprotocols=["hub.v1.json"], compression=None) as publisher:  # type: ignore[list-item]
        await publisher.recv()
        for number in range(1, 3001):
            value = {"number": number, "text": "x" * 10_000}
            await publisher.send(json.dumps({"type": "publish", "topic": "/flood", "value": value}))
        await publisher.send(json.dumps({"type": "ping", "request": 1}))
        assert json.loads(await publisher.recv())["type"] == "pong"
    flag.touch()
    result = await node.evaluate("""
        await until(() => got.length >= 1);
        return {numbers, dropped: client.statistics().droppedMessages};
    """)
    assert result["dropped"] > 0
    assert len(result["numbers"]) + result["dropped"] == 3000
    assert result["numbers"] == sorted(result["numbers"])
    assert result["numbers"][-50:] == list(range(2951, 3001))
