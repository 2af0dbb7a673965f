"""The hub's web page and its browser client, as the bytes that an HTTP server answers with.

`page(path)` is for the WebSocket edge, which serves these files beside its connections: `/`, its script, style sheet
and threads, with a hash of the content in the name; `/hub.js` with its types; and the licences of vendored code. The
files are read as this module is imported: later there may be no descriptor left. They are joined at the first request,
and compressed each at its first.

One request gets all of `/hub.js`, and a page does not ask for sixty files, one behind the other: each module becomes a
function behind those of the modules that it imports, so that its names are its own:

    const parts_helper_js = (() => { ...; return { helper }; })();

Modules import by name from a path, without renaming; they export `class`, `function` and `const`; there are no circles.
Comments stay, for readers of `hub.js`.
"""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

__all__ = ["PageFile", "page"]

_HTML: Final = "text/html; charset=utf-8"
_CSS: Final = "text/css; charset=utf-8"
_JS: Final = "text/javascript; charset=utf-8"
_TEXT: Final = "text/plain; charset=utf-8"

_THREADS: Final = ("/parts/feed_worker.js", "/parts/export_worker.js")

_HASH_DIGITS: Final = 16

_LEVEL: Final = 6  # Of compression: 9 takes twice the time for a hundredth of the size

_FROM: Final = re.compile(r'^(import|export) \{([^}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)

_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:class|function|const)\b)", re.MULTILINE)

_EXPORTED: Final = re.compile(r"^export (?:async )?(?:class|function\*?|const) (\w+)", re.MULTILINE)

_HEAD: Final = re.compile(r"/\*\*.*?\*/\n", re.DOTALL)

_THREAD: Final = re.compile(r'new URL\("(\.[^"]+)", import\.meta\.url\)')

_STYLES: Final = re.compile(r'( *<link rel="stylesheet" href="([^"]+)">\n)+')

_SCRIPTS: Final = re.compile(r'( *<script [^>]*src="([^"]+)"[^>]*></script>\n)+')

_ADDRESSES: Final = re.compile(r'(?:src|href)="(/[^"]+)"')


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
    for one in folder.iterdir():
        if one.is_dir():
            yield from _files(one, f"{path}{one.name}/")
        else:
            yield path + one.name, one.read_text(encoding="utf-8")


_TEXTS: Final = dict(_files(resources.files(__name__).joinpath("static")))


def joined(path: str, read: Callable[[str], str], threads: Mapping[str, str] | None = None) -> str:
    """Return a module with all that it imports as a single one.

    Args:
        path: Of the module; its imports are relative to it.
        read: Gives the text of a module by its path.
        threads: Where modules are served that run as threads, by their paths.

    Raises:
        ValueError: A module imports itself, over others.
    """
    text = read(path)
    modules: dict[str, str | None] = {}
    for name in _imported(path, text):
        _add(name, read, modules, threads or {})
    head = _HEAD.match(text)
    start = head.end() if head else 0
    exports = [name.strip() for kind, names, _ in _FROM.findall(text) if kind == "export" for name in names.split(",")]
    exported = ", ".join(filter(None, exports))
    parts = [text[:start], *(part for part in modules.values() if part), _body(path, text[start:], threads or {})]
    last = [f"export {{ {exported} }};\n"] if exported else []
    return "\n".join([*(part.strip("\n") + "\n" for part in parts), *last])


def page_files(index: str, read: Callable[[str], str]) -> tuple[str, str, str]:
    """Return the page with one style sheet and one script, `{style}` and `{script}` in place of their addresses.

    Returns:
        The page; the style sheet; the text of the scripts before the module, each of which defines a global name.
    """
    styles = _ADDRESSES.findall(_found(_STYLES, index))
    scripts = _ADDRESSES.findall(_found(_SCRIPTS, index))
    page = _STYLES.sub('  <link rel="stylesheet" href="{style}">\n', index)
    page = _SCRIPTS.sub('  <script type="module" src="{script}"></script>\n', page)
    before = [f"{read(path)}\nObject.assign(globalThis, {{ {_global(read(path))} }});\n" for path in scripts[:-1]]
    return page, "\n".join(map(read, styles)), "".join(before)


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[0] if found else ""


def _global(text: str) -> str:
    return _found(re.compile(r"(?<=^var )\w+", re.MULTILINE), text)


def _add(path: str, read: Callable[[str], str], modules: dict[str, str | None], threads: Mapping[str, str]) -> None:
    """Put a module behind those that it imports; None stands for one whose turn has not come."""
    if path in modules:
        if modules[path] is None:
            raise ValueError(f"{path} imports itself, over others")
        return
    modules[path] = None
    text = read(path)
    for name in _imported(path, text):
        _add(name, read, modules, threads)
    del modules[path]
    names = [
        *_EXPORTED.findall(text),
        *(name for kind, names, _ in _FROM.findall(text) if kind == "export" for name in _names(names)),
    ]
    body = _EXPORT.sub("", _body(path, text, threads)).strip("\n")
    modules[path] = f"const {_variable(path)} = (() => {{\n{body}\nreturn {{ {', '.join(names)} }};\n}})();\n"


def _body(path: str, text: str, threads: Mapping[str, str]) -> str:

    def taken(found: re.Match[str]) -> str:
        return f"const {{ {', '.join(_names(found[2]))} }} = {_variable(_absolute(path, found[3]))};\n"

    def served(found: re.Match[str]) -> str:
        thread = _absolute(path, found[1])
        return f'new URL("{threads.get(thread, thread)}", import.meta.url)'

    return _THREAD.sub(served, _FROM.sub(taken, text))


def _names(listed: str) -> list[str]:
    return [name for one in listed.split(",") if (name := one.strip())]


def _variable(path: str) -> str:
    return re.sub(r"\W", "_", path.removeprefix("/"))


def _absolute(path: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def _imported(path: str, text: str) -> list[str]:
    return [_absolute(path, name) for _, _, name in _FROM.findall(text)]


@cache
def _pages() -> dict[str, PageFile]:
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
    """Return the answer to a GET of `path`, None where there is no such page.

    Args:
        path: As in the request line, without a query.
    """
    return _pages().get(path)
