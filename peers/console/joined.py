"""The files of the page joined: one script, one style sheet, a script for each thread, and `hub.js`.

Whoever loads, or saves, `/hub.js` gets all of it with one request, and a page need not ask for sixty files, one behind
the other. Each module becomes a function behind those of the modules that it imports, so that its names are its own:

    const parts_helper_js = (() => { ...; return { helper }; })();

Modules import by name from a path, without renaming; they export `class`, `function` and `const`; none imports itself,
over others. Pure functions. Comments stay, as whoever loads `hub.js` may want to read it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final

_FROM: Final = re.compile(r'^(import|export) \{([^}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)

_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:class|function|const)\b)", re.MULTILINE)

_EXPORTED: Final = re.compile(r"^export (?:async )?(?:class|function\*?|const) (\w+)", re.MULTILINE)

_HEAD: Final = re.compile(r"/\*\*.*?\*/\n", re.DOTALL)

_THREAD: Final = re.compile(r'new URL\("(\.[^"]+)", import\.meta\.url\)')

_STYLES: Final = re.compile(r'( *<link rel="stylesheet" href="([^"]+)">\n)+')

_SCRIPTS: Final = re.compile(r'( *<script [^>]*src="([^"]+)"[^>]*></script>\n)+')

_ADDRESSES: Final = re.compile(r'(?:src|href)="(/[^"]+)"')


def joined(path: str, read: Callable[[str], str], threads: Mapping[str, str] | None = None) -> str:
    """Return a module with all that it imports as a single one.

    Args:
        path: Of the module; what it imports is relative to it.
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
    """Return the name that a script without modules defines."""
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
    """Return a module with what it imports taken from the functions before it."""

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
