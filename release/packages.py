"""Build the packages of a release: `python -m release.packages [FOLDER]`, by default into `dist`.

| file | what |
|---|---|
| `topichub-V.tar.gz` | sources |
| `topichub-V-cpXY-….whl` | everything, with the compiled twins of this platform; `-py3-none-any.whl`: without |
| `topichub_client-V-….whl`, two alike | `peers.client` and `peers.client.blocking` with the modules that these import |
| `topichub-V.tgz` | `hub.js` as an npm package, with types; where there is no npm: its folder, `npm` |

Extras choose dependencies, not files: so a client without a hub is a distribution of its own. A program installs
`topichub` or `topichub-client`, not both: both have `peers/client`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from hub import __version__
from peers.console import joined

PROJECT = Path(__file__).parents[1]
SOURCES = (
    *("hub", "peers", "pyspark_hub", "examples/systemd"),
    *("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"),
)

_CLIENT = ("peers.client", "peers.client.blocking")
_STATIC = PROJECT / "peers" / "console" / "static"

_CLIENT_PROJECT = """\
[build-system]
requires = {build}
build-backend = "setuptools.build_meta"

[project]
name = "topichub-client"
dynamic = ["version", "readme"]
description = "The Python clients of topichub, a topic-prefix publish/subscribe hub, without the hub"
requires-python = {python}
license = "MIT"
license-files = ["LICENSE"]
dependencies = {dependencies}

[tool.setuptools.dynamic]
version = {{attr = "hub.__version__"}}

[tool.setuptools.packages.find]
include = ["hub*", "peers*"]

[tool.setuptools]
include-package-data = false

[tool.setuptools.package-data]
"*" = ["*.pyi", "py.typed"]
"""


def copy_sources(folder: Path) -> None:
    """Copy what a source distribution is made of, without anything that was built."""
    ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.c")
    for name in SOURCES:
        if (PROJECT / name).is_dir():
            shutil.copytree(PROJECT / name, folder / name, ignore=ignored)
        else:
            shutil.copy2(PROJECT / name, folder / name)


def client_modules() -> set[str]:
    """Return the files of the client: its modules, all that these import, and their compiled twins."""
    known = {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in ("hub", "peers")
        for path in (PROJECT / package).rglob("*.py")
    }
    found: set[str] = set()
    left = list(_CLIENT)
    while left:
        name = left.pop()
        if name in known and name not in found:
            found.add(name)
            left += [name.rpartition(".")[0], *_imports(known[name])]
    files = {known[name] for name in found}
    for folder in {path.parent for path in files}:
        files.update(path for path in folder.iterdir() if path.suffix in {".pyi", ".pyx", ".pxi"})
    return {str(path.relative_to(PROJECT)) for path in files} | {"hub/py.typed", "peers/py.typed"}


def _imports(path: Path) -> Iterator[str]:
    """Yield the names of modules that a module imports when it runs, at its start or later."""
    left: list[ast.AST] = [ast.parse(path.read_text())]
    while left:
        node = left.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        is_for_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        left += node.orelse if isinstance(node, ast.If) and is_for_types else ast.iter_child_nodes(node)


def copy_client(folder: Path) -> None:
    """Write the source tree of the distribution `topichub-client`."""
    for name in client_modules() | {"setup.py", "README.md", "LICENSE"}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, folder / name)
    whole = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    text = _CLIENT_PROJECT.format(
        build=json.dumps(whole["build-system"]["requires"]),
        python=json.dumps(whole["project"]["requires-python"]),
        dependencies=json.dumps(whole["project"]["dependencies"]),
    )
    (folder / "pyproject.toml").write_text(text)


def npm_version() -> str:
    """Return the version as npm writes it: 1.0.0-rc.1 for 1.0.0rc1."""
    return re.sub(r"(\d)(a|b|rc)(\d)", r"\1-\2.\3", __version__)


def write_npm(folder: Path) -> None:
    """Write the npm package: the file that hubs serve as `/hub.js`, and its types."""
    folder.mkdir(parents=True)
    (folder / "hub.js").write_text(joined("/hub.js", lambda path: (_STATIC / path.lstrip("/")).read_text()))
    shutil.copy2(_STATIC / "hub.d.ts", folder / "hub.d.ts")
    shutil.copy2(PROJECT / "LICENSE", folder / "LICENSE")
    (folder / "README.md").write_text(
        "# topichub\n\nThe JavaScript client of topichub, a topic-prefix publish/subscribe hub, for browsers and "
        "Node: the file that hubs serve as `/hub.js`.\n\n```js\n"
        'import { connect } from "topichub";\n\nconst client = connect("ws://127.0.0.1:7401/");\n'
        'client.subscribe("/zeek/", ({ topic, value }) => console.log(topic, value));\n```\n'
    )
    package = {
        "name": "topichub",
        "version": npm_version(),
        "description": "The JavaScript client of topichub, a topic-prefix publish/subscribe hub",
        "license": "MIT",
        "type": "module",
        "exports": {".": {"types": "./hub.d.ts", "default": "./hub.js"}},
        "types": "./hub.d.ts",
        "files": ["hub.js", "hub.d.ts"],
        "sideEffects": False,
        "engines": {"node": ">=22"},  # the first with a WebSocket of its own
    }
    (folder / "package.json").write_text(json.dumps(package, indent=2) + "\n")


def build(tree: Path, kind: str, out: Path, twins: str = "") -> None:
    """Build an `sdist` or a `wheel` of a tree; `twins` is TOPICHUB_TWINS, see setup.py."""
    environment = {name: value for name, value in os.environ.items() if name != "TOPICHUB_TWINS"}
    subprocess.run(
        [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", out, tree],
        env=environment | ({"TOPICHUB_TWINS": twins} if twins else {}),
        cwd=out,  # so that `build` is not this project's folder of that name
        check=True,
    )


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "sources").mkdir()
        copy_sources(folder / "sources")
        build(folder / "sources", "sdist", out, "none")
        for twins in ("", "none"):
            with tarfile.open(out / f"topichub-{__version__}.tar.gz") as archive:
                archive.extractall(folder / f"whole{twins}", filter="data")
            build(folder / f"whole{twins}" / f"topichub-{__version__}", "wheel", out, twins)
            copy_client(folder / f"client{twins}")
            if not twins:  # what Cython has translated once
                translated = Path("build", "cython")
                shutil.copytree(
                    folder / "whole" / f"topichub-{__version__}" / translated, folder / "client" / translated
                )
            build(folder / f"client{twins}", "wheel", out, twins)
        write_npm(folder / "npm")
        if shutil.which("npm"):
            subprocess.run(["npm", "pack", "--silent", "--pack-destination", out], cwd=folder / "npm", check=True)
        else:
            shutil.copytree(folder / "npm", out / "npm", dirs_exist_ok=True)
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else PROJECT / "dist").resolve())
