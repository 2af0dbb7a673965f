"""The hub's web page and its browser client, as the bytes that an HTTP server answers with.

Purpose: `page(path)` for the WebSocket edge, which serves these files beside its connections: all files of `static`
that are of a kind which browsers load, under their paths there, and `index.html` as `/`. The modules in `client`, of
which `hub.js` is made, are served as that one file (see `joined`). Owner of the state: nobody; the files are read once,
as this module is imported: later there may be no descriptor left. Invariant: what was not read then cannot be reached,
whatever a path says. Cost: one lookup; about 0.5 MB. Not here: HTTP itself, headers other than the content type, and
what the page does (see `static/console.js`).
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from peers.console.joined import joined

__all__ = ["page"]

_CONTENT_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "ts": "text/plain; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
}
"""By the suffix of a file: others are no files of the page."""


def _files(folder: Traversable, path: str = "/") -> Iterator[tuple[str, Traversable]]:
    """Yield each file beneath a folder with the path that it is served under."""
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, f"{path}{one.name}/")
        elif one.name.rpartition(".")[2] in _CONTENT_TYPES:
            yield path if one.name == "index.html" else path + one.name, one


_READ: Final = {
    path: (file.name, file.read_bytes()) for path, file in _files(resources.files(__name__).joinpath("static"))
}

_CLIENT: Final = "/client/"
"""What `/hub.js` is made of."""

_PAGES: Final = {
    path: (_CONTENT_TYPES[name.rpartition(".")[2]], body)
    for path, (name, body) in _READ.items()
    if not path.startswith(_CLIENT)
}
_PAGES["/hub.js"] = (_CONTENT_TYPES["js"], joined("/hub.js", lambda path: _READ[path][1].decode()).encode())


def page(path: str) -> tuple[str, bytes] | None:
    """Return what to answer to a GET of `path`.

    Args:
        path: As in the request line, without a query.

    Returns:
        The content type and the body, or None where there is no such page.
    """
    return _PAGES.get(path)
