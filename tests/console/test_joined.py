"""`/hub.js`: one file made of modules, which does what these do."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from peers.console import page
from peers.console.joined import joined
from tests.console.conftest import HUB_JS

SERVED = page("/hub.js")

MODULES = {
    "/main.js": """/** What it is. */

import { helper } from "./parts/helper.js";

export { One } from "./parts/one.js";
export {
  Two, TWO,
} from "./parts/two.js";

export function main() {
  return helper();
}
""",
    "/parts/helper.js": 'import { One } from "./one.js";\n\nexport function helper() {\n  return new One();\n}\n',
    "/parts/one.js": "/** One. */\n\nexport class One {}\n",
    "/parts/two.js": """import { One } from "./one.js";\n\nexport class Two extends One {}\nexport const TWO = 2;\n""",
}


def test_modules_stand_behind_those_that_they_import() -> None:
    assert (
        joined("/main.js", MODULES.__getitem__)
        == """/** What it is. */

const parts_one_js = (() => {
/** One. */

class One {}
return { One };
})();

const parts_helper_js = (() => {
const { One } = parts_one_js;

function helper() {
  return new One();
}
return { helper };
})();

const parts_two_js = (() => {
const { One } = parts_one_js;

class Two extends One {}
const TWO = 2;
return { Two, TWO };
})();

const { helper } = parts_helper_js;

const { One } = parts_one_js;
const { Two, TWO } = parts_two_js;

export function main() {
  return helper();
}

export { One, Two, TWO };
"""
    )


def test_threads_are_where_they_are_served() -> None:
    text = 'export const thread = () => new Worker(new URL("./worker.js", import.meta.url));\n'
    modules = {"/main.js": 'import { thread } from "./parts/thread.js";\n\nthread();\n', "/parts/thread.js": text}
    made = joined("/main.js", modules.__getitem__, {"/parts/worker.js": "/worker.1.js"})
    assert 'new Worker(new URL("/worker.1.js", import.meta.url))' in made


def test_modules_that_import_each_other_are_refused() -> None:
    modules = {
        "/a.js": 'export { b } from "./b.js";\n',
        "/b.js": 'import { c } from "./c.js";\n',
        "/c.js": 'import { b } from "./b.js";\n',
    }
    with pytest.raises(ValueError, match=r"/b\.js imports itself"):
        joined("/a.js", modules.__getitem__)


def test_all_modules_are_in_it() -> None:
    assert SERVED is not None
    text = SERVED.body.decode()
    assert not re.search(r"^import ", text, re.MULTILINE)
    for module in HUB_JS.with_name("client").rglob("*.js"):
        purpose, *_ = module.read_text().partition("\n\n")
        assert text.count(f"{purpose}\n") == 1, module


def test_its_types_name_all_that_it_exports() -> None:
    assert SERVED is not None
    types = page("/hub.d.ts")
    assert types is not None
    (listed,) = re.findall(r"^export \{ (.*) \};$", SERVED.body.decode(), re.MULTILINE)
    found = {*listed.split(", "), *re.findall(r"^export function (\w+)", SERVED.body.decode(), re.MULTILINE)}
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
