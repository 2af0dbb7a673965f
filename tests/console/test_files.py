"""The files that the hub serves to browsers: `/hub.js` is one file made of modules; and the types of the page."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from peers.client import RequestError, connect
from peers.console import joined, page
from tests.console.conftest import HUB_JS
from tests.console.real_hub import RealHub, run_hub
from tests.descriptors import no_descriptor_left


@pytest.mark.parametrize(
    ("path", "content_type", "beginning"),
    [
        ("/", "text/html; charset=utf-8", b"<!doctype html>"),
        ("/hub.js", "text/javascript; charset=utf-8", b"/**"),
        ("/hub.d.ts", "text/plain; charset=utf-8", b"/**"),
    ],
)
def test_a_page_is_its_content_type_and_its_bytes(path: str, content_type: str, beginning: bytes) -> None:
    found = page(path)
    assert found is not None
    assert found.content_type == content_type
    assert found.body.startswith(beginning)
    assert gzip.decompress(found.compressed) == found.body
    assert not found.is_immutable


def test_nothing_else_is_served() -> None:
    with no_descriptor_left():
        assert page("/") is not None
    others = ["", "/nothing", "/index.html", "/package.json", "/client/client.js", "/console.js", "/parts/figures.js"]
    outside = ["/../__init__.py", "/parts/../../__init__.py", "/parts", "/parts/", "/__init__.py"]
    for path in (*others, *outside, "/hub.js?x", "//", "//hub.js"):
        assert page(path) is None, path


def test_what_the_page_loads_is_one_script_and_one_style_sheet_with_hashes_in_their_names() -> None:
    index = page("/")
    assert index is not None
    text = index.body.decode()
    assert not re.search(r'(?:src|href)="(?:https?:)?//', text)
    (style, script) = re.findall(r'(?:src|href)="(/[^"]*)"', text)
    loaded = page(script)
    assert loaded is not None
    threads = re.findall(r'new URL\("([^"]+)", import\.meta\.url\)', loaded.body.decode())
    assert len(threads) == 2
    for path, content_type in ((style, "css"), (script, "javascript"), *((one, "javascript") for one in threads)):
        found = page(path)
        assert found is not None, path
        assert found.content_type == f"text/{content_type}; charset=utf-8"
        assert found.is_immutable
        assert hashlib.sha256(found.body).hexdigest()[:16] in path
        assert gzip.decompress(found.compressed) == found.body
        assert not re.search(r"^import ", found.body.decode(), re.MULTILINE)


def test_the_pictures_of_the_document_and_the_licence_are_there() -> None:
    folder = Path(__file__).parents[2] / "docs"
    shown = re.findall(r"!\[[^]]+\]\((console/[a-z-]+\.png)\)", (folder / "console.md").read_text())
    assert sorted(shown) == sorted(f"console/{one.name}" for one in (folder / "console").iterdir())
    licence = page("/vendor/uplot/LICENSE.txt")
    assert licence is not None
    assert licence.body.startswith(b"The MIT License")
    for one in shown:
        picture = (folder / one).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 250_000


def test_text_from_elsewhere_never_becomes_markup() -> None:
    for module in HUB_JS.parent.rglob("*.js"):
        found = re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser", module.read_text())
        assert not found or "vendor" in module.parts, (module, found)


SERVED = page("/hub.js")


def test_modules_that_import_each_other_are_refused() -> None:
    modules = {
        "/a.js": 'export { b } from "./b.js";\n',
        "/b.js": 'import { c } from "./c.js";\n',
        "/c.js": 'import { b } from "./b.js";\n',
    }
    with pytest.raises(ValueError, match=r"/b\.js imports itself"):
        joined("/a.js", modules.__getitem__)


def test_all_modules_are_in_it_and_its_types_name_all_that_it_exports() -> None:
    assert SERVED is not None
    text = SERVED.body.decode()
    assert not re.search(r"^import ", text, re.MULTILINE)
    for module in HUB_JS.with_name("client").rglob("*.js"):
        purpose, *_ = module.read_text().partition("\n\n")
        assert text.count(f"{purpose}\n") == 1, module
    types = page("/hub.d.ts")
    assert types is not None
    (listed,) = re.findall(r"^export \{ (.*) \};$", text, re.MULTILINE)
    found = {*listed.split(", "), *re.findall(r"^export function (\w+)", text, re.MULTILINE)}
    assert found == set(re.findall(r"^export (?:class|function) (\w+)", types.body.decode(), re.MULTILINE))


async def test_what_is_saved_as_one_file_is_all_of_it(node_start: list[str], tmp_path: Path) -> None:
    assert SERVED is not None
    saved = tmp_path / "hub.mjs"
    saved.write_bytes(SERVED.body)
    program = """
        const all = await Promise.all(process.argv.slice(1).map((one) => import(one)));
        console.log(JSON.stringify(all.map((one) => Object.keys(one))));
    """
    process = await asyncio.create_subprocess_exec(
        *node_start,
        "--input-type=module",
        "-e",
        program,
        saved.as_uri(),
        HUB_JS.as_uri(),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    one, other = json.loads(said)
    assert "connect" in one
    assert one == other


SERVICES = Path(__file__).parents[2] / "peers" / "console" / "static" / "feeds" / "services.d.ts"

INTERFACES = {
    name: {field.strip('"'): text for field, text in re.findall(r'^  ("?[\w$/]+"?): (.*);$', body, re.MULTILINE)}
    for name, body in re.findall(
        r"^export interface (\w+) \{\n(.*?)^\}", SERVICES.read_text(), re.MULTILINE | re.DOTALL
    )
}

ELSEWHERE = {"Bound", "ClusterNode", "Loss", "Rule", "Tier"}
"""What these hubs have none of: users (and rules for them), a cluster of Zeek, losses, a tier."""

PLAIN: dict[str, Any] = {"string": str, "number": (int, float), "boolean": bool}


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
