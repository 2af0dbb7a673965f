"""Parts of the page that draw nothing, in Node: samples, counts by topic, fields, kinds, text, history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.node import Node, start_node

STATIC = Path(__file__).parents[2] / "peers" / "console" / "static"


@pytest.fixture
async def parts(node_start: list[str]) -> AsyncIterator[Node]:
    async with start_node(node_start) as node:
        for name in ("parts/sampler.js", "parts/figures.js", "feeds/connections.js", "feeds/history.js"):
            await node.evaluate("Object.assign(globalThis, await import(module));", module=(STATIC / name).as_uri())
        yield node


async def test_what_comes_at_once_is_taken_as_a_whole(parts: Node) -> None:
    taken = await parts.evaluate("""
        const sampler = new Sampler();
        const add = (from, to) => {
          for (let n = from; n < to; n += 1) sampler.add({topic: "/a", value: n, at: n});
          return sampler.take(0).map(({text}) => Number(text));
        };
        const some = [add(0, 990), add(990, 995), add(995, 3000), add(3000, 3010)];
        return [...some, sampler.received, sampler.matched, sampler.taken];
    """)
    assert taken == [[*range(990)], [*range(990, 995)], [*range(2995, 3000)], [], 3010, 3010, 1000]


async def test_a_thousand_rows_a_second_are_taken_in_the_long_run(parts: Node) -> None:
    taken = await parts.evaluate("""
        const sampler = new Sampler();
        const counts = [];
        for (let now = 0; now <= 10_000; now += 50) {
          for (let n = 0; n < 2_500; n += 1) sampler.add({topic: "/a", value: n, at: now});
          counts.push(sampler.take(now).length);
        }
        return [sampler.received, sampler.taken, Math.max(...counts.slice(1))];
    """)
    assert taken == [2_500 * 201, 1_000 + 10_000, 50]


async def test_long_values_are_cut_and_few(parts: Node) -> None:
    cut, rows = await parts.evaluate("""
        const cut = rowOf({topic: "/a", value: "x".repeat(3_000_000), at: 1, labels: ["l"]});
        const sampler = new Sampler();
        for (let n = 0; n < 100; n += 1) sampler.add({topic: "/a", value: "x".repeat(1_000_000), at: n});
        return [{...cut, text: cut.text.length}, sampler.take(0).length];
    """)
    expected = {"topic": "/a", "labels": ["l"], "at": 1, "text": 1024 * 1024, "whole": False, "characters": 3_000_002}
    assert cut == expected
    assert rows == 9


async def test_topics_are_counted_in_little_memory(parts: Node) -> None:
    first, second = await parts.evaluate("""
        const counts = new TopicCounts(0);
        for (let n = 0; n < 300; n += 1) counts.add(n % 3 ? "/busy" : "/quiet");
        const first = counts.top(2_000);
        for (let n = 0; n < 25_000; n += 1) counts.add(`/${n}`);
        return [first, counts.top(3_000)];
    """)
    assert first == {
        "shown": [
            {"topic": "/busy", "count": 200, "perSecond": 100, "share": 2 / 3},
            {"topic": "/quiet", "count": 100, "perSecond": 50, "share": 1 / 3},
        ],
        "topics": 2,
        "otherTopics": 0,
        "otherMessages": 0,
    }
    assert [one["topic"] for one in second["shown"][:2]] == ["/busy", "/quiet"]
    assert (second["topics"], second["otherTopics"], second["otherMessages"]) == (25_002, 24_982, 24_982)


async def fields(parts: Node, *values: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await parts.evaluate(
        "const fields = new Fields(); values.forEach((value) => fields.add(value)); return fields.list();",
        values=values,
    )
    return found


async def test_fields_of_values(parts: Node) -> None:
    found = await fields(parts, {"a": {"b": 1}, "c": [2, 3.5], "e": []}, {"a": None, "c": [], "d": "10.0.0.1"}, 7)
    assert [(one["path"], one["kinds"], one.get("least"), one.get("most")) for one in found] == [
        ("", ["integer"], 7, 7),
        ("a", ["null"], None, None),
        ("a.b", ["integer"], 1, 1),
        ("c", ["list"], None, None),
        ("c[]", ["integer", "number"], 2, 3.5),
        ("d", ["address"], None, None),
        ("e", ["list"], None, None),
    ]
    assert found[2]["part"] == pytest.approx(1 / 3)


async def test_hostile_values_have_few_fields(parts: Node) -> None:
    size, left_out = await parts.evaluate("""
        const fields = new Fields();
        let deep = 1;
        for (let n = 0; n < 500; n += 1) deep = {deep};
        fields.add(deep);
        const names = (of) => Object.fromEntries(Array.from({length: 1_000}, (_, n) => [of(n), n]));
        fields.add(names((n) => `${n}${"long".repeat(100)}`));
        fields.add(names((n) => `n${n}`));
        fields.add(Array.from({length: 1_000_000}, () => 1));
        return [fields.list().length, fields.leftOut];
    """)
    assert size == 200
    assert left_out > 800


async def test_kinds(parts: Node) -> None:
    kinds: dict[str, list[Any]] = {
        "null": [None],
        "boolean": [True],
        "integer": [1],
        "number": [1.5],
        "text": ["x", "a:b", "1:2"],
        "time": ["2026-11-23T02:00:00.5Z"],
        "address": ["10.0.0.7", "fe80::1", "fd00::/8"],
        "list": [[]],
        "map": [{}],
    }
    found = await parts.evaluate("return values.map((all) => all.map(kindOf))", values=list(kinds.values()))
    assert found == [[kind] * len(values) for kind, values in kinds.items()]


async def test_what_would_not_be_seen_is_written_out(parts: Node) -> None:
    text = "a\tb\nü😀\x1b[31m\u202e\u200b\ufeff\x9b"
    assert await parts.evaluate("return visible(text)", text=text) == (
        "a\tb\nü😀\\u001b[31m\\u202e\\u200b\\ufeff\\u009b"
    )


async def test_why_somebody_is_slow(parts: Node) -> None:
    said = await parts.evaluate("""
        const row = {
          queued_messages: 0, queued_bytes: 0, overflow: "drop-oldest", queue: {messages: 100, bytes: 1000},
          sample: ["/a"], prefixes: 1, rates: null,
        };
        const why = (changes) => whySlow({...row, ...changes});
        const rates = (offered, dropped = 0) =>
          ({out_messages: 10, offered_messages: offered, dropped_messages: dropped});
        return [
          why({}),
          why({rates: rates(10)}),
          why({queued_messages: 7}),
          why({rates: rates(15), queued_messages: 50}),
          why({rates: rates(20, 10)}),
          why({rates: rates(25, 5), queued_messages: 96}),
          why({queued_messages: 7, sample: ["/a", "/b", "/c", "/d"], prefixes: 1200}),
          why({queued_messages: 7, sample: ["", "/b"], prefixes: 2}),
          why({queued_messages: 7, sample: [], prefixes: 0}),
        ];
    """)
    takes, waits = "It reads 10/s of {}/s under /a. ", "7 messages are queued, at most 100."
    assert said == [
        "",
        "",
        f"It reads /a; its rate is being measured. {waits}",
        takes.format(15) + "50 messages are queued, at most 100.",
        takes.format(20) + "10/s are dropped, 0 messages are queued.",
        takes.format(25) + "Its queue is full: 96 messages; the oldest are dropped.",
        f"It reads /a, /b, /c and 1,197 more; its rate is being measured. {waits}",
        f"It reads (everything), /b; its rate is being measured. {waits}",
        f"It reads labels or names; its rate is being measured. {waits}",
    ]


def answer(first: int, *values: float | None, step_s: int = 1) -> dict[str, Any]:
    told = {"step_s": step_s, "points": 5, "first": first, "figures": {"a": list(values)}}
    return told | {"now_s": 1000.0, "clock_s": 100.0}


async def test_history_is_put_together(parts: Node) -> None:
    """New points go behind the old ones; an answer of another hub, or of another step, begins anew."""

    async def fed(*answers: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await parts.evaluate(
            """
            const history = new History();
            return answers.map((answer) => {
              history.take(answer);
              const {times, question: next} = history;
              return {values: history.values("a"), times, next, newest: history.newest("a")};
            });
            """,
            answers=answers,
        )
        return found

    first, second, third = await fed(answer(10, 1, 2, 3), answer(12, 4, 5), answer(13, 5, 6, 7))
    assert (first["values"], first["next"]) == ([1, 2, 3], {"after": 11})
    assert (second["values"], second["next"]) == ([1, 2, 4, 5], {"after": 12})
    assert (third["values"], third["newest"]) == ([2, 4, 5, 6, 7], 7)
    assert third["times"] == [912, 913, 914, 915, 916]
    assert (await fed(answer(10, 1, 2, 3), answer(13)))[1]["values"] == [1, 2, 3]
    for other in (answer(2, 9), answer(100, 9), answer(11, 9, step_s=5)):
        _, found = await fed(answer(10, 1, 2, 3), other)
        assert (found["values"], found["next"]) == ([9], {})
    (found,) = await fed(answer(10, 1, None, None))
    assert (found["values"], found["newest"]) == ([1, None, None], 1)
