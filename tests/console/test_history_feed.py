"""What the page knows of the hub's history, made of what the hub tells piece by piece. In Node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.console.node import start_node

MODULE = Path(__file__).parents[2] / "peers" / "console" / "static" / "feeds" / "history.js"


def answer(first: int, *values: float | None, points: int = 5, step_s: int = 1) -> dict[str, Any]:
    told = {"step_s": step_s, "points": points, "first": first, "figures": {"a": list(values)}}
    return told | {"now_s": 1000.0, "clock_s": 100.0}


async def fed(node_start: list[str], *answers: dict[str, Any]) -> list[dict[str, Any]]:
    async with start_node(node_start) as node:
        found: list[dict[str, Any]] = await node.evaluate(
            """
            const {History} = await import(module);
            const history = new History();
            return answers.map((answer) => {
              history.take(answer);
              const {times, question: next} = history;
              return {values: history.values("a"), times, next, newest: history.newest("a")};
            });
            """,
            module=MODULE.as_uri(),
            answers=answers,
        )
    return found


async def test_what_is_new_is_put_behind(node_start: list[str]) -> None:
    first, second, third = await fed(node_start, answer(10, 1, 2, 3), answer(12, 4, 5), answer(13, 5, 6, 7))
    assert (first["values"], first["next"]) == ([1, 2, 3], {"after": 11})
    assert (second["values"], second["next"]) == ([1, 2, 4, 5], {"after": 12})
    assert (third["values"], third["newest"]) == ([2, 4, 5, 6, 7], 7)
    assert third["times"] == [912, 913, 914, 915, 916]


async def test_an_answer_without_news(node_start: list[str]) -> None:
    _, found = await fed(node_start, answer(10, 1, 2, 3), answer(13))
    assert found["values"] == [1, 2, 3]


async def test_another_hub_begins_anew(node_start: list[str]) -> None:
    for other in (answer(2, 9), answer(100, 9), answer(11, 9, step_s=5)):
        _, found = await fed(node_start, answer(10, 1, 2, 3), other)
        assert found["values"] == [9]
        assert found["next"] == {}


async def test_what_is_not_known(node_start: list[str]) -> None:
    (found,) = await fed(node_start, answer(10, 1, None, None))
    assert (found["values"], found["newest"]) == ([1, None, None], 1)
