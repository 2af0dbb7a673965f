"""The hub's web page and its browser client, as the bytes that an HTTP server answers with.

`page(path)` is for the WebSocket edge, which serves these files beside its connections: `/`, its script, style sheet
and threads, each joined to one file (see `joined`) with a hash of its content in its name; `/hub.js` with its types;
and the licences of what is vendored. The files are read as this module is imported: later there may be no descriptor
left. They are joined at the first request, and compressed each at its first. Nothing else can be reached. Not here:
HTTP itself, and what the page does (see `static/console.js`).
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from peers.console.joined import joined, page_files

__all__ = ["PageFile", "page"]

_HTML: Final = "text/html; charset=utf-8"
_CSS: Final = "text/css; charset=utf-8"
_JS: Final = "text/javascript; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"

_THREADS: Final = ("/parts/feed_worker.js", "/parts/export_worker.js")

_HASH_DIGITS: Final = 16

_LEVEL: Final = 6
"""Of compression: 9 takes twice the time for a hundredth of the size."""


class PageFile:
    """Answer to a GET.

    Attributes:
        is_immutable: Whether this path will always have this body.
    """

    def __init__(self, content_type: str, body: bytes, *, is_immutable: bool) -> None:
        self.content_type = content_type
        self.body = body
        self.is_immutable = is_immutable

    @cached_property
    def compressed(self) -> bytes:
        """The body, compressed by gzip; the joined script takes 20 ms."""
        return gzip.compress(self.body, _LEVEL, mtime=0)


def _files(folder: Traversable, path: str = "/") -> Iterator[tuple[str, str]]:
    """Yield each text beneath a folder with its path there."""
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, f"{path}{one.name}/")
        else:
            yield path + one.name, one.read_text(encoding="utf-8")


_TEXTS: Final = dict(_files(resources.files(__name__).joinpath("static")))


@cache
def _pages() -> dict[str, PageFile]:
    """Return all files, by the paths that they are served under."""
    served: dict[str, PageFile] = {}

    def serve(path: str, content_type: str, text: str, *, is_immutable: bool = False) -> str:
        body = text.encode()
        if is_immutable:
            name, _, suffix = path.rpartition(".")
            path = f"{name}.{hashlib.sha256(body).hexdigest()[:_HASH_DIGITS]}.{suffix}"
        served[path] = PageFile(content_type, body, is_immutable=is_immutable)
        return path

    get = _TEXTS.__getitem__
    threads = {
        path: serve(f"/{path.rpartition('/')[2]}", _JS, joined(path, get), is_immutable=True) for path in _THREADS
    }
    index, style, scripts = page_files(_TEXTS["/index.html"], get)
    script = serve("/console.js", _JS, scripts + joined("/console.js", get, threads), is_immutable=True)
    style = serve("/console.css", _CSS, style, is_immutable=True)
    serve("/", _HTML, index.replace("{style}", style).replace("{script}", script))
    serve("/hub.js", _JS, joined("/hub.js", get))
    serve("/hub.d.ts", _TEXT, _TEXTS["/hub.d.ts"])
    for path, text in _TEXTS.items():
        if path.endswith(".txt"):
            serve(path, _TEXT, text)
    return served


def page(path: str) -> PageFile | None:
    """Return what to answer to a GET of `path`, None where there is no such page.

    Args:
        path: As in the request line, without a query.
    """
    return _pages().get(path)
