"""The files that the hub serves to browsers."""

from __future__ import annotations

import gzip
import hashlib
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
    ],
)
def test_a_page_is_its_content_type_and_its_bytes(path: str, content_type: str, beginning: bytes) -> None:
    found = page(path)
    assert found is not None
    assert found.content_type == content_type
    assert found.body.startswith(beginning)
    assert gzip.decompress(found.compressed) == found.body
    assert not found.is_immutable


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/nothing",
        "/index.html",
        "/package.json",
        "/client/client.js",
        "/console.js",
        "/parts/figures.js",
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
    assert page(path) is None


def test_pages_are_served_without_a_descriptor() -> None:
    with no_descriptor_left():
        assert page("/") is not None


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


def test_what_is_vendored_has_its_licence() -> None:
    licence = page("/vendor/uplot/LICENSE.txt")
    assert licence is not None
    assert licence.body.startswith(b"The MIT License")


def test_the_pictures_of_the_document_are_there() -> None:
    folder = Path(__file__).parents[2] / "docs"
    shown = re.findall(r"!\[[^]]+\]\((console/[a-z-]+\.png)\)", (folder / "console.md").read_text())
    assert sorted(shown) == sorted(f"console/{one.name}" for one in (folder / "console").iterdir())
    for one in shown:
        picture = (folder / one).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) < 250_000
