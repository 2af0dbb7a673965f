"""hub.js and labels, names and rules, with the real hub."""

from __future__ import annotations

import pytest

from tests.console.node import Node
from tests.console.real_hub import RealHub
from tests.console.test_hub_js_with_the_hub import use


async def test_rules_and_labels(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        start();
        const seen = {topic: [], rule: [], both: []};
        const into = (name) => collectInto(seen[name]);
        await client.subscribe("/t", into("topic")).confirmed;
        const rule = client.subscribe({labels: ["b", "a", "b"]}, into("rule"));
        await rule.confirmed;
        await client.subscribe({labels: ["a"], prefix: "/t"}, into("both")).confirmed;
        client.publish("/t", 1, {labels: ["b", "a", "c"]});
        client.publish("/t", 2, {labels: ["c", "b", "a"]});
        client.publish("/t", 3);
        await client.publish("/u", 4, {labels: ["a", "b"], confirm: true});
        await until(() => seen.rule.length === 3);
        await rule.unsubscribe();
        await client.publish("/t", 5, {labels: ["a", "b"], confirm: true});
        await until(() => seen.topic.length === 4 && seen.both.length === 3);
        return [seen, client.statistics().publishedBatches, rule.prefixes];
    """)
    beside = {"labels": ["a", "b", "c"], "sender": "", "to": ""}
    one, two = ({"topic": "/t", "value": value, **beside} for value in (1, 2))
    five = {"topic": "/t", "value": 5, "labels": ["a", "b"], "sender": "", "to": ""}
    assert result == [
        {
            "topic": [one, two, {"topic": "/t", "value": 3}, five],
            "rule": [one, two, {"topic": "/u", "value": 4, "labels": ["a", "b"], "sender": "", "to": ""}],
            "both": [one, two, five],
        },
        4,
        [],
    ]


async def test_names(node: Node, real_hub: RealHub) -> None:
    await use(node, real_hub)
    result = await node.evaluate("""
        start();
        const seen = [];
        const name = client.claim("org.example.Door");
        await name.whenOwned();
        await client.subscribe({to: "org.example.Door"}, collectInto(seen)).confirmed;
        await client.subscribe({sender: "org.example.Door"}, collectInto(seen)).confirmed;
        await client.publish("/t", 1, {to: "org.example.Door", confirm: true});
        await client.publish("/t", 2, {sender: "org.example.Door", confirm: true});
        const refused = await failure(() => client.publish("/t", 3, {sender: "org.example.Wall", confirm: true}));
        await until(() => seen.length === 2);
        return [seen, refused.code];
    """)
    assert result == [
        [
            {"topic": "/t", "value": 1, "labels": [], "sender": "", "to": "org.example.Door"},
            {"topic": "/t", "value": 2, "labels": [], "sender": "org.example.Door", "to": ""},
        ],
        1008,
    ]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("client.subscribe({prefix: '/a'}, () => {})", "a rule has labels or a sender"),
        ("client.subscribe({labels: 'a'}, () => {})", "labels are a list"),
        ("client.subscribe({labels: [1]}, () => {})", "label"),
        ("client.publish('/a', 1, {labels: ['\\n']})", "label"),
    ],
)
async def test_what_is_no_rule_is_refused_at_the_call(node: Node, real_hub: RealHub, call: str, text: str) -> None:
    await use(node, real_hub)
    result = await node.evaluate(f"start(); return (await failure(() => {call})).text;")
    assert text in result
