"""hub.js and the stores of real hubs: commands, types, watching over lost connections, replicas, and refusals."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from hub.policy.language import read_policy
from hub.settings.settings import Settings, StoresSettings
from peers.client import Client, connect
from peers.values import Count, Enum, Port, Set, Table, Timespan, Timestamp
from tests.console.node import Node
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens
from tests.links.way import Way


@pytest.fixture
def kept() -> int:
    return 65_536


@pytest.fixture
async def storing(start_hub: StartHub, kept: int) -> Hub:
    return await start_hub(settings=Settings(stores=StoresSettings(open=("s=:memory:",), changes=kept)))


@pytest.fixture
async def python(storing: Hub) -> AsyncIterator[Client]:
    async with connect(storing.url, name="python") as client:
        yield client


async def use(node: Node, url: str) -> None:
    await node.evaluate("globalThis.url = address", address=f"{url.rstrip('/')}/v1/hub")
    await node.evaluate("globalThis.store = start({name: 'js'}).store('s')")


# Commands and types.


TYPED: list[tuple[str, Any]] = [
    ("null", None),
    ("true", True),
    ("7", 7),
    ("-129", -129),
    ("70000", 70_000),
    ("2 ** 53 - 1", 2**53 - 1),
    ("-(2n ** 63n)", -(2**63)),
    ("1.5", 1.5),
    ("new Real(1)", 1.0),
    ("new Count(1)", Count(1)),
    ("new Count(2n ** 64n - 1n)", Count(2**64 - 1)),
    ("'é \\u2028 \\u{1f600}'", "é \u2028 \U0001f600"),
    ("'long'.repeat(20000)", "long" * 20_000),
    ("new Address('192.0.2.7')", ip_address("192.0.2.7")),
    ("new Address('2001:DB8:0:0::1')", ip_address("2001:db8::1")),
    ("new Subnet('10.1.2.3/9')", ip_network("10.0.0.0/9")),
    ("new Subnet('2001:db8::/33')", ip_network("2001:db8::/33")),
    ("new Port(53, 'udp')", Port(53, "udp")),
    ("new Enum('Notice::LOG')", Enum("Notice::LOG")),
    ("new Timestamp(-1500000000n)", Timestamp(-1_500_000_000)),
    ("Timespan.ofMs(1.5)", Timespan(1_500_000)),
    ("new Set([1, new Real(1), new Count(1)])", Set([1, 1.0, Count(1)])),
    ("new Table([[new Port(1, 'tcp'), new Set()]])", Table({Port(1, "tcp"): Set()})),
    ("new Map([[1, 'one']])", {1: "one"}),
    ("[1, [2, [null]]]", [1, [2, [None]]]),
    ("{a: {b: [true]}, left: undefined}", {"a": {"b": [True]}}),
]


async def test_values_keep_their_types(node: Node, storing: Hub, python: Client) -> None:
    await use(node, storing.url)
    for made, meant in TYPED:
        await node.evaluate(f"globalThis.made = {made}; await store.put('value', made)")
        got = await python.store("s").get("value")
        assert (type(got), got) == (type(meant), meant)
        await python.store("s").put("back", got)
        same = await node.evaluate("""
            const back = await store.get("back");
            await store.put("again", back);
            return [back?.constructor === made?.constructor, String(back) === String(made)];
        """)
        assert same == [True, True]
        again = await python.store("s").get("again")
        assert (type(again), again) == (type(meant), meant)


async def test_keys_are_told_apart_by_type(node: Node, storing: Hub, python: Client) -> None:
    await use(node, storing.url)
    for number, (made, _) in enumerate(TYPED):
        await node.evaluate(f"await store.put({made}, number)", number=number)
    await python.store("s").put(Set([Count(2), "a"]), "sorted")
    assert (await python.store("s").state()).entries == len(TYPED) + 1
    for number, (made, meant) in enumerate(TYPED):
        assert await node.evaluate(f"return store.get({made})") == number
        if not isinstance(meant, dict | list):  # no keys of `get` in Python
            assert await python.store("s").get(meant) == number
    assert await node.evaluate("return store.get(new Set(['a', new Count(2)]))") == "sorted"
    assert await node.evaluate("return (await store.keys()).length") == len(TYPED) + 1


async def test_bytes_and_times_that_zeek_does_not_have(node: Node, storing: Hub, python: Client) -> None:
    await use(node, storing.url)
    assert await node.evaluate("""
        await store.put("bytes", new Uint8Array([0, 255]));
        await store.put("raw", new Extension(10, new Uint8Array([255])));
        const [fine, before] = [new PreciseDate(1795400754784493123n), new PreciseDate(-1n)];
        await store.put("fine", [fine, before, new Date(1795400754784), new Date(0), new Date(-62135596800000)]);
        const dates = await store.get("fine");
        await store.put("fine again", dates);
        return [
          [...await store.get("bytes")], [...(await store.get("raw")).bytes], dates.map((date) => date.getTime()),
          [String(dates[0].ns), String(dates[1].ns)], dates.slice(2).map((date) => date.constructor.name),
        ];
    """) == [
        [0, 255],
        [255],
        [1795400754784, -1, 1795400754784, 0, -62135596800000],
        ["1795400754784493123", "-1"],
        ["Date"] * 3,
    ]
    assert await python.store("s").get("bytes") == b"\0\xff"
    assert await python.store("s").get("raw") == "\udcff"
    assert await python.store("s").get("fine") == await python.store("s").get("fine again")


async def test_untyped_makes_what_messages_have(node: Node) -> None:
    assert await node.evaluate("""
        return untyped({
          real: new Real(2), count: new Count(3), large: new Count(2n ** 64n - 1n), address: new Address("::1"),
          port: new Port(53, "udp"), time: new Timestamp(1500000000n), span: Timespan.ofMs(1500),
          set: new Set([1, [new Real(1)]]), table: new Table([[new Port(1, "tcp"), {a: null}]]),
          bytes: new Uint8Array([1]), date: new Date(0),
        });
    """) == {
        "real": 2,
        "count": 3,
        "large": "18446744073709551615",
        "address": "::1",
        "port": "53/udp",
        "time": "1970-01-01T00:00:01.5Z",
        "span": 1.5,
        "set": [1, [1]],
        "table": {"1/tcp": {"a": None}},
        "bytes": "AQ==",
        "date": "1970-01-01T00:00:00.000Z",
    }


# What is hostile, and what is refused.


async def test_hostile_keys_and_values(node: Node, storing: Hub, python: Client) -> None:
    await use(node, storing.url)
    names = ["__proto__", "constructor", "", "$store/s/write", "\0\x7f", "'; DROP", "﻿bom", "x" * 5000]
    await python.store("s").put("object", {"__proto__": 1, "constructor": {"prototype": 2}})
    result = await node.evaluate(
        """
        for (const name of names) await store.put(name, {[name]: name});
        const wrong = [];
        for (const name of names) {
          const back = await store.get(name);
          if (Object.keys(back).length !== 1 || Object.keys(back)[0] !== name) wrong.push(name);
        }
        const odd = await store.get("object");
        const cycle = [];
        cycle.push(cycle);
        class Own {}
        const formless = [undefined, () => 1, Symbol("s"), "\\ud800", 2n ** 64n, -(2n ** 63n) - 1n, cycle, [undefined],
          new Own(), {"\\udfff": 1}, new Date(NaN), new Number(1)];
        const told = [];
        for (const value of formless) told.push((await failure(() => store.put("k", value)))?.name);
        for (const value of formless) told.push((await failure(() => store.get(value)))?.name);
        const made = [() => new Address("1.2.3.256"), () => new Address("x::1"), () => new Address("[::1]"),
          () => new Address("::1/"), () => new Subnet("10.0.0.0/33"), () => new Subnet("10.0.0.0"),
          () => new Port(65536), () => new Port(1, "sctp"),
          () => new Count(-1), () => new Count(1.5), () => new Timestamp(2n ** 63n)];
        const unmade = [];
        for (const make of made) unmade.push(await failure(make) !== null);
        return {wrong, own: [Object.keys(odd), Object.getPrototypeOf(odd) === Object.prototype], told, unmade,
          expiry: [await failure(() => store.put("k", 1, {expiresS: 0})),
            await failure(() => store.put("k", 1, {expiresS: "x"}))],
          large: await failure(() => store.put("k", "x".repeat(600000))), k: await store.exists("k")};
        """,
        names=names,
    )
    assert result["wrong"] == []
    assert result["own"] == [["__proto__", "constructor"], True]
    assert result["told"] == ["TypeError"] * 24
    assert result["unmade"] == [True] * 11
    assert [error["name"] for error in result["expiry"]] == ["TypeError", "TypeError"]
    assert (result["large"]["name"], result["large"]["code"]) == ("RequestError", 4101)
    assert "the limit is 524288" in result["large"]["text"]
    assert result["k"] is False
    assert sorted(key for key in await python.store("s").keys() if key != "object") == sorted(names)


async def test_a_store_that_is_not_there(node: Node, storing: Hub) -> None:
    await use(node, storing.url)
    result = await node.evaluate("""
        const other = client.store("other");
        const calls = [() => other.get("k"), () => other.put("k", 1), () => other.keys(), () => other.watch().next(),
          () => other.replica().confirmed];
        const told = [];
        for (const call of calls) told.push((await failure(call)).code);
        const names = [];
        for (const name of ["", "a/b", "a=b", 7, "a\\nb"]) names.push((await failure(() => client.store(name)))?.name);
        return {told, names, prefixes: client.statistics().prefixes};
    """)
    assert result["told"] == [4102] * 5
    assert result["names"] == ["TypeError"] * 5
    assert result["prefixes"] == 0


async def test_access_is_refused_by_the_policy(node: Node, storing: Hub) -> None:
    users = KnownTokens(storing)
    policy = {"roles": {"getter": {"request": ["$store/s/read"]}}, "users": {"gert": ["getter"]}}
    users._users = users._users._replace(policy=read_policy(policy, "test"))
    storing.server.core.authority.adopt(users._users.policy)
    await node.evaluate("globalThis.url = address", address=f"{storing.url.rstrip('/')}/v1/hub")
    result = await node.evaluate(
        """
        const getter = start({token});
        const calls = [() => getter.store("s").put("k", 2), () => getter.store("s").watch().next(),
          () => getter.store("s").replica().confirmed];
        const told = [];
        for (const call of calls) told.push((await failure(call)).code);
        return [told, await getter.store("s").get("k"), log.filter(([name]) => name === "error").length];
        """,
        token=users.token("gert"),
    )
    assert result == [[4106, 1008, 1008], None, 2]


# Watching.


@pytest.fixture
async def way(storing: Hub) -> AsyncIterator[Way]:
    way = await Way(storing.endpoints[0]).start()
    yield way
    await way.stop()


@pytest.mark.parametrize("kept", [65_536, 3])
async def test_a_lost_link_leaves_no_gap(node: Node, storing: Hub, way: Way, kept: int) -> None:
    await use(node, f"ws://127.0.0.1:{way.endpoint.port}")
    async with connect(storing.url) as python:
        store = python.store("s")
        await store.put_many({"gone": 0, "kept": 0})
        await node.evaluate("""
            globalThis.there = new Map();
            globalThis.versions = [];
            globalThis.partials = 0;
            globalThis.ended = false;
            globalThis.watched = (async () => {
              for await (const {kind, key, value, version, present, partial} of store.watch()) {
                if (!present) versions.push(version);
                partials += partial;
                if (kind === "put") there.set(key, value);
                else there.delete(key);
                ended ||= key === "end";
                if (ended && !partial) return;
              }
            })();
            while (there.size < 2) await new Promise((resolve) => setTimeout(resolve, 5));
        """)
        first = await store.put("before", 1)
        assert first is not None
        for lost in range(3):
            way.cut()
            await store.put_many({f"key {number}": lost for number in range(20)})
            await store.erase("gone")
        last = await store.put("end", 1)
        result = await node.evaluate("await watched; return [[...there], versions, count('close') > 0, partials]")
        assert dict(result[0]) == {entry.key: entry.value async for entry in store.entries()}
        assert result[2] is True
        assert result[1] == sorted(result[1])
        if kept > 1000:
            assert last is not None
            assert result[3] == 1  # of the two that were there
            assert result[1] == list(range(first, last + 1))
    await node.evaluate("await client.close()")


async def test_a_watch_that_is_not_read_holds_so_much_and_no_more(node: Node, storing: Hub, python: Client) -> None:
    await use(node, storing.url)
    store = python.store("s")
    await node.evaluate("globalThis.watch = store.watch(); await watch.confirmed")
    for turn in range(2):
        await store.put_many([(number % 100, [turn, number]) for number in range(20_000)])
    await store.put("end", 1)
    there = await node.evaluate("""
        const there = new Map();
        let told = 0;
        let last = 0;
        for await (const {key, value, version} of watch) {
          if (version < last) throw new Error(`${version} behind ${last}`);
          last = version;
          told += 1;
          there.set(key, value);
          if (key === "end") break;
        }
        return [...there];
    """)
    assert dict(there) == {entry.key: entry.value async for entry in store.entries()}


async def test_a_store_that_comes_back_with_another_life(node: Node, start_hub: StartHub) -> None:
    settings = Settings(stores=StoresSettings(open=("s=:memory:",)))
    first = await start_hub(settings=settings)
    port = first.endpoints[0].port
    await use(node, first.url)
    async with connect(first.url) as client:
        await client.store("s").put("old", 1)
    await node.evaluate("""
        globalThis.seen = [];
        globalThis.watched = (async () => {
          for await (const {kind, key, partial} of store.watch()) {
            seen.push([kind, key]);
            if (seen.some(([, key]) => key === "new") && !partial) return;
          }
        })();
        while (seen.length < 1) await new Promise((resolve) => setTimeout(resolve, 5));
    """)
    await first.stop()
    second = await start_hub(f"ws://127.0.0.1:{port}", settings=settings)
    async with connect(second.url) as client:
        await client.store("s").put("new", 1)
        seen = await node.evaluate("await watched; await client.close(); return seen")
    assert seen[0] == ["put", "old"]
    assert sorted(seen[1:]) == [["erase", "old"], ["put", "new"]]  # the order depends on when it came back


async def test_a_watch_ends_with_its_client(node: Node, storing: Hub) -> None:
    await use(node, storing.url)
    result = await node.evaluate("""
        const [watch, copy] = [store.watch(), store.replica()];
        await Promise.all([watch.confirmed, copy.confirmed]);
        const next = watch.next();
        await client.close();
        const late = await failure(() => copy.atLeast(2 ** 52));
        return [(await next).done, (await watch.next()).done, late.code, (await failure(() => store.watch())).code];
    """)
    assert result == [True, True, 1000, 1000]


# Replicas.


async def test_a_replica_is_read_without_asking(node: Node, storing: Hub, python: Client) -> None:
    await use(node, storing.url)
    await python.store("s").put_many({"a": 1, Port(53, "udp"): "dns", (1, "x"): None})
    result = await node.evaluate("""
        const copy = store.replica();
        await copy.confirmed;
        const port = new Port(53, "udp");
        const told = {first: [copy.size, copy.get("a"), copy.get(port), copy.has([1, "x"]), copy.get("none", 0)]};
        await Promise.all([store.put("b", new Real(2)), store.erase("a")]);
        await copy.atLeast(store.written);
        const last = copy.version("b") + 1 === copy.number;
        told.then = [copy.has("a"), String(copy.get("b")), last, copy.version("a"), copy.ageS < 60];
        const items = copy.items();
        await store.clear();
        await copy.atLeast(store.written);
        told.items = [[...items].length, copy.size];
        told.late = (await failure(() => copy.atLeast(store.written + 1, {timeoutMs: 20}))).code;
        told.formless = (await failure(() => copy.get(new Set([1])))).name;
        await copy.close();
        told.closed = [copy.size, (await failure(() => copy.atLeast(store.written + 1))).code];
        return told;
    """)
    assert result == {
        "first": [3, 1, "dns", True, 0],
        "then": [False, "2", True, 0, True],
        "items": [3, 0],
        "late": 1013,
        "formless": "TypeError",
        "closed": [0, 1000],
    }


async def test_the_example_of_the_page_about_stores(node: Node, start_hub: StartHub) -> None:
    hub = await start_hub(settings=Settings(stores=StoresSettings(open=("status=:memory:",))))
    await use(node, hub.url)
    text = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()
    (block,) = re.findall(r"```js\n(?:import [^\n]*\n)*\n?(.*?)```", text, re.DOTALL)
    body = block.replace('connect("ws://127.0.0.1:7401/v1/hub")', "start()").replace("console.log(", "shown.push(")
    result = await node.evaluate(f"const shown = []; {body} return shown;")
    assert result == [None, {"open": "443/tcp"}, 1, "512", "put", "visits", 1, True, 1, True]
