"""The files that the hub serves to browsers."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest

from peers.console import page
from tests.descriptors import no_descriptor_left


@pytest.mark.parametrize(
    ("path", "content_type", "beginning"),
    [
        ("/", "text/html; charset=utf-8", b"<!doctype html>"),
        ("/hub.js", "text/javascript; charset=utf-8", b"/**"),
        ("/hub.d.ts", "text/plain; charset=utf-8", b"/**"),
        ("/console.js", "text/javascript; charset=utf-8", b"/**"),
        ("/styles/shell.css", "text/css; charset=utf-8", b"/*"),
    ],
)
def test_a_page_is_its_content_type_and_its_bytes(path: str, content_type: str, beginning: bytes) -> None:
    """Each served path answers with a type that browsers accept for it; modules need a JavaScript type."""
    found = page(path)
    assert found is not None
    assert found[0] == content_type
    assert found[1].startswith(beginning)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/nothing",
        "/index.html",
        "/package.json",
        "/client/client.js",
        "/../__init__.py",
        "/parts/../../__init__.py",
        "/parts",
        "/parts/",
        "/__init__.py",
        "/hub.js?x",
        "//",
        "//hub.js",
    ],
)
def test_nothing_else_is_served(path: str) -> None:
    """A path that is not on the list is no page, whatever lies in the folder or beside it."""
    assert page(path) is None


def test_pages_are_served_without_a_descriptor() -> None:
    """A hub that can open nothing more has its pages."""
    with no_descriptor_left():
        assert page("/parts/figures.js") is not None


def test_everything_that_the_page_loads_is_served() -> None:
    """The page and its modules name no file of the hub that the hub would not serve, and nothing of anybody else."""
    waiting, seen = ["/"], {"/"}
    while waiting:
        path = waiting.pop()
        found = page(path)
        assert found is not None, path
        text = found[1].decode()
        named = set(re.findall(r'(?:src|href)="(/[^"]*)"', text))
        imported = re.findall(r'^(?:import|export) [^"]* from "(\.[^"]*)"', text, re.MULTILINE)
        named |= {posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for name in imported}
        assert not re.search(rb'(?:src|href)="(?:https?:)?//', found[1])
        waiting += named - seen
        seen |= named
    assert {"/console.js", "/styles/base.css", "/hub.js", "/views/messages/stream.js"} <= seen


def test_what_is_vendored_has_its_licence() -> None:
    """Whoever gets the code of somebody else gets the terms with it."""
    licence = page("/vendor/uplot/LICENSE.txt")
    assert licence is not None
    assert licence[1].startswith(b"The MIT License")


def test_the_pictures_of_the_document_are_there() -> None:
    """Each is a PNG, small enough for a clone, and the program that makes them anew leaves none behind unshown."""
    folder = Path(__file__).parents[2] / "docs"
    shown = re.findall(r"!\[[^]]+\]\((console/[a-z-]+\.png)\)", (folder / "console.md").read_text())
    assert sorted(shown) == sorted(f"console/{one.name}" for one in (folder / "console").iterdir())
    for one in shown:
        picture = (folder / one).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 250_000
