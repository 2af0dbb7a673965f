"""`hub.js` as one file: the modules that it is made of, one behind the other, each behind those that it imports.

Purpose: whoever loads, or saves, `/hub.js` gets all of it with one request, and a page need not ask for thirty files,
one behind the other. Pure function of the files. What modules have to be like for that: they import by name from a
path, without renaming; what stands at their top level has a name that stands in no other; none imports itself, over
others. Not here: leaving out comments, as whoever loads it may want to read it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Final

__all__ = ["joined"]

_FROM: Final = re.compile(r'^(import|export) \{([^}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)

_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:class|function|const|let)\b)", re.MULTILINE)

_HEAD: Final = re.compile(r"/\*\*.*?\*/\n", re.DOTALL)


def joined(path: str, read: Callable[[str], str]) -> str:
    """Return a module with all that it imports as a single one.

    Args:
        path: Of the module; what it imports is relative to it.
        read: Gives the text of a module by its path.

    Raises:
        ValueError: A module imports itself, over others.
    """
    text = read(path)
    modules: dict[str, str | None] = {}
    for name in _imported(path, text):
        _add(name, read, modules)
    exported = [name.strip() for kind, names, _ in _FROM.findall(text) if kind == "export" for name in names.split(",")]
    head = _HEAD.match(text)
    start = head.end() if head else 0
    parts = [text[:start], *(part for part in modules.values() if part), _FROM.sub("", text[start:])]
    return "\n".join(
        [*(part.strip("\n") + "\n" for part in parts), f"export {{ {', '.join(filter(None, exported))} }};\n"]
    )


def _add(path: str, read: Callable[[str], str], modules: dict[str, str | None]) -> None:
    """Put a module behind those that it imports; None stands for one whose turn has not come."""
    if path in modules:
        if modules[path] is None:
            raise ValueError(f"{path} imports itself, over others")
        return
    modules[path] = None
    text = read(path)
    for name in _imported(path, text):
        _add(name, read, modules)
    del modules[path]
    modules[path] = _EXPORT.sub("", _FROM.sub("", text))


def _imported(path: str, text: str) -> list[str]:
    folder = posixpath.dirname(path)
    return [posixpath.normpath(posixpath.join(folder, name)) for _, _, name in _FROM.findall(text)]
