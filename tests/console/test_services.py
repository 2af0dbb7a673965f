"""The types of `feeds/services.d.ts`, by which the page is checked, are those of what a hub answers."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peers.client import RequestError, connect
from tests.console.real_hub import RealHub, run_hub

SERVICES = Path(__file__).parents[2] / "peers" / "console" / "static" / "feeds" / "services.d.ts"

INTERFACES = {
    name: {field.strip('"'): text for field, text in re.findall(r'^  ("?[\w$/]+"?): (.*);$', body, re.MULTILINE)}
    for name, body in re.findall(
        r"^export interface (\w+) \{\n(.*?)^\}", SERVICES.read_text(), re.MULTILINE | re.DOTALL
    )
}

ELSEWHERE = {"Bound", "ClusterNode", "Loss", "Rule", "Tier"}
"""What these hubs have none of: users (and rules for them), a cluster of Zeek, losses, a tier."""

PLAIN = {"string": str, "number": (int, float), "boolean": bool}


@pytest.fixture(scope="module")
def hubs() -> Iterator[tuple[RealHub, RealHub]]:
    with tempfile.TemporaryDirectory() as folder:  # its name is short enough for a socket in it
        between = f"unix://{folder}/hub.sock"
        flags = ("--listen", between, "--store", "last=:memory:", "--journal", f"{folder}/journal")
        with run_hub(*flags) as hub, run_hub("--peer", between) as far:
            yield hub, far


def within(text: str, value: Any, where: str) -> Iterator[tuple[str, Any, str]]:
    """Yield what a value is made of, where its type is no interface: types, values, and where they stand."""
    if text.endswith(" | null"):
        if value is not None:
            yield text.removesuffix(" | null"), value, where
    elif re.fullmatch(r"\w+( \| [\w\[\]]+)+", text):
        yield next(one for one in text.split(" | ") if isinstance(value, PLAIN.get(one, list))), value, where
    elif text.startswith("["):
        parts = [part.partition(": ")[2] for part in text.removesuffix("[]")[1:-1].split(", ")]
        for pair in value:
            yield from ((part, one, where) for part, one in zip(parts, pair, strict=True))
    elif text.endswith("[]"):
        assert isinstance(value, list), where
        yield from ((text.removesuffix("[]").strip("()"), one, f"{where}[]") for one in value)
    else:
        assert text.startswith("Record<string, "), text
        yield from ((text.removeprefix("Record<string, ")[:-1], one, f"{where}.{key}") for key, one in value.items())


def compare(text: str, value: Any, where: str, seen: set[str]) -> None:
    """Fail where a value is not of a type; `seen` is told of the interfaces that it has."""
    if text in PLAIN:
        assert isinstance(value, PLAIN[text]), where
        assert isinstance(value, bool) == (text == "boolean"), where
    elif text in INTERFACES:
        seen.add(text)
        assert set(value) == set(INTERFACES[text]), where
        for field, one in value.items():
            compare(INTERFACES[text][field], one, f"{where}.{field}", seen)
    else:
        for inner, one, place in within(text, value, where):
            compare(inner, one, place, seen)


async def test_what_the_page_asks_is_answered_as_its_types_say(hubs: tuple[RealHub, RealHub]) -> None:
    seen = {"Answers"}
    questions: dict[str, Any] = {"$hub/mesh/trace": {"topic": "/types/0"}, "$hub/names": {"prefix": ""}}
    url, far_url = (hub.url for hub in hubs)
    async with (
        connect(url) as client,
        connect(url) as other,
        connect(url, name="to be closed"),
        connect(far_url) as far,
        far.subscribe("/types/"),
    ):
        await client.claim("org.example.Types")
        stream = other.consume("types", "/types/", from_offset=0)
        for number in range(300):  # more than a level of topics has rows
            await client.publish_confirmed(f"/types/{number}", number)
        await anext(stream)

        while (await client.request("$hub/who", None))[0]["rates"] is None:
            pass  # its first second
        while len(await client.request("$hub/mesh/trace", {"topic": "/types/0"})) < 2:
            pass  # the other hub is on its way
        rows = {row["name"]: row for row in await client.request("$hub/who", None)}
        row = rows["to be closed"]
        questions["$hub/kick"] = {"id": row["id"]}
        asked = {"action": "publish", "topic": "/types/", "roles": ["member"]}
        questions["$hub/policy/test"] = asked
        questions["$hub/topics"] = {"under": "/types/"}
        for topic, text in sorted(INTERFACES["Answers"].items(), key=lambda one: one[0] == "$hub/kick"):
            try:
                answer = await client.request(topic, questions.get(topic))
            except RequestError as error:
                pytest.fail(f"{topic}: {error}")
            compare(text, answer, topic, seen)
    assert set(INTERFACES) - seen == ELSEWHERE
