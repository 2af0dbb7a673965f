"""The hub's web page and its browser client, as the bytes that an HTTP server answers with.

Purpose: `page(path)` for the WebSocket edge, which serves these few files beside its connections. Owner of the state:
nobody; the files are read once, as this module is imported: later there may be no descriptor left. Cost: one lookup.
Not here: HTTP itself, headers other than the content type, and what the page does (see `static/console.js`).
"""

from __future__ import annotations

from importlib import resources

__all__ = ["page"]

_FILES = {
    "/": "index.html",
    "/console.css": "console.css",
    "/console.js": "console.js",
    "/stream.js": "stream.js",
    "/hub_figures.js": "hub_figures.js",
    "/topics.js": "topics.js",
    "/sparkline.js": "sparkline.js",
    "/sign_in.js": "sign_in.js",
    "/hub.js": "hub.js",
    "/hub.d.ts": "hub.d.ts",
}
"""The files that are served: nothing else in the folder can be reached."""

_CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "ts": "text/plain; charset=utf-8",
}


def _read(name: str) -> tuple[str, bytes]:
    suffix = name.rpartition(".")[2]
    return _CONTENT_TYPES[suffix], resources.files(__name__).joinpath("static", name).read_bytes()


_PAGES = {path: _read(name) for path, name in _FILES.items()}


def page(path: str) -> tuple[str, bytes] | None:
    """Return what to answer to a GET of `path`.

    Args:
        path: As in the request line, without a query.

    Returns:
        The content type and the body, or None where there is no such page.
    """
    return _PAGES.get(path)
