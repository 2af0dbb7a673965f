"""The generated pages under docs/reference: settings, commands and the Python API, from the code.

`python -m tests.contracts.rewrite` writes them; `test_reference` compares them with the code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import groupby
from typing import Any

from cyclopts import App

import peers.client
import peers.embedding
from hub.limits import Overflow
from hub.settings.keys import KEYS, Key, Kind
from peers.cli.commands import app
from peers.client import blocking
from peers.daemon.sources import flag, variable

__all__ = ["INSIDE", "PAGES", "signature"]

GENERATED = "<!-- Generated from the code by `python -m tests.contracts.rewrite`. Do not edit. -->\n\n"


def table(*head: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


# Settings.


def size(value: float) -> str:
    """Return a size in the largest unit of which it is a whole number."""
    if not value:
        return "0"
    number, unit = int(value), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number % 1024:
            break
        number, unit = number // 1024, larger
    return f"{number:,} {unit}"


def default_of(key: Key) -> str:
    value: Any = key.default.value if isinstance(key.default, Overflow) else key.default
    match key.kind:
        case Kind.SIZE:
            return size(value)
        case Kind.TEXTS:
            return ", ".join(f"`{item}`" for item in value) or "none"
        case Kind.SECONDS:
            return f"{value:,.10g} s"
        case Kind.COUNT:
            return f"{value:,}"
        case _:
            return f"`{value}`" if value else "empty"


def accepted(key: Key) -> str:
    match key.kind:
        case Kind.CHOICE:
            return ", ".join(f"`{choice}`" for choice in key.choices)
        case Kind.TEXT:
            return key.unit or f"text, up to {key.most:,} bytes"
        case Kind.TEXTS:
            return ("one or more " if key.least else "any number of ") + key.unit
        case Kind.SIZE:
            return f"{size(key.least)} to {size(key.most)}"
        case _:
            return f"{key.least:,g} to {key.most:,.10g} {key.unit}"


def settings() -> Iterator[str]:
    yield (
        "# Settings\n\n" + GENERATED + "[Configuration](../configuration.md) explains files, variables and flags. "
        "*Live* settings are applied by a reload; others need a restart.\n"
    )
    for section, keys in groupby(KEYS.items(), key=lambda item: item[0].rpartition(".")[0]):
        rows = [
            (
                f"`{path}`<br>`{flag(path)}`<br>`{variable(path)}`",
                key.description,
                default_of(key),
                accepted(key),
                "yes" if key.live else "no",
            )
            for path, key in keys
        ]
        yield f"\n## {section or 'The hub'}\n\n"
        yield table("setting", "meaning", "default", "accepted", "live", rows=rows)


# Commands.


CONNECTION = ("--url", "--context", "--name", "--token-file", "--ca", "--certificate", "--key")


def commands() -> Iterator[str]:
    yield "# Commands\n\n" + GENERATED + "[Command line](../command-line.md) has examples and explanations.\n"
    yield "\n## Connection flags\n\nCommands that connect to a hub have these flags:\n\n"
    yield table("flag", "meaning", rows=[row for name, *row in parameters(app["sub"]) if name in CONNECTION])
    yield from commands_of(app, "hub")


def commands_of(command: App, name: str) -> Iterator[str]:
    inner = [each for each in command if not each.startswith("-")]
    if name != "hub":
        yield f"\n## {name}\n\n{first_paragraph(str(command.help or ''))}\n"
    if name in {"hub run", "hub check-config"}:
        yield "\nEach [setting](settings.md) is a flag.\n"
    elif not inner:
        found = list(parameters(command))
        if {first for first, *_ in found}.issuperset(CONNECTION):
            yield "\nTakes [connection flags](#connection-flags).\n"
            found = [row for row in found if row[0] not in CONNECTION]
        if found:
            yield "\n" + table("parameter", "meaning", rows=[row for _, *row in found])
    for each in inner:
        yield from commands_of(command[each], f"{name} {each}")


def parameters(command: App) -> Iterator[tuple[str, str, str]]:
    """Yield the first name of each parameter, and its row: all names, and the meaning."""
    for argument in command.assemble_argument_collection():
        names = [each for each in argument.names if each != "*" and not each.startswith("--no-")]
        if not names or not argument.show:
            continue
        meaning = argument.parameter.help or ""
        if choices := argument.get_choices():
            meaning += f" One of {', '.join(f'`{each}`' for each in choices)}."
        default: Any = argument.field_info.default
        if default not in (inspect.Parameter.empty, None, "", False, ()) and isinstance(
            default, str | int | float | Enum
        ):
            meaning += f" Default: `{getattr(default, 'value', default)}`."
        yield names[0], ", ".join(f"`{each}`" for each in names), meaning


# The Python API.

INSIDE = {
    "Block": {"alone", "send", "take"},
    "CallbackSubscription": {"finish", "open", "put", "put_break", "put_gap"},
    "ConsumedMessage": {"of"},
    "Hello": {"decode", "encode", "link", "mesh", "token", "without_token"},
    "MessageStream": {"finish", "put", "put_break", "put_gap"},
    "Service": {"cancel", "disconnected", "receive"},
    "ServiceName": {"end", "ended", "stand", "wish"},
}
"""What only the parts of a client use of them, see tests/client/test_surface.py."""


def python_api() -> Iterator[str]:
    yield (
        "# Python API\n\n"
        + GENERATED
        + "[Clients](../clients.md) and [a hub inside a program](../embedding.md) have examples.\n"
    )
    for package in (peers.client, blocking, peers.embedding):
        yield f"\n## {package.__name__}\n\n{first_paragraph(package.__doc__ or '')}\n"
        for name in sorted(package.__all__):
            yield from described(name, getattr(package, name))


def described(name: str, value: Any) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    kind = "exception " if inspect.isclass(value) and issubclass(value, BaseException) else ""
    yield f"\n### {kind}{name}\n\n"
    if inspect.isfunction(value):
        yield f"```python\n{name}{shown(value)}\n```\n\n"
    yield first_paragraph(inspect.getdoc(value) or "") + "\n"
    if inspect.isclass(value) and not kind and not issubclass(value, Enum):
        rows = [
            [f"`{member}{shown(function)}`", first_paragraph(inspect.getdoc(function) or "")]
            for member, function in sorted(methods(value).items())
        ]
        if rows:
            yield "\n" + table("method", "meaning", rows=rows)
    if inspect.isclass(value) and issubclass(value, Enum):
        yield "\n" + ", ".join(f"`{member.name} = {member.value!r}`" for member in value) + "\n"


def methods(owner: type) -> dict[str, Any]:
    found = {}
    for each in reversed(owner.__mro__):
        if each.__module__.startswith(("hub", "peers")):
            for name, member in vars(each).items():
                function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
                    found[name] = function
    return {name: function for name, function in found.items() if name not in INSIDE.get(owner.__name__, ())}


def shown(function: Any) -> str:
    text = signature(function).replace("<object object>", "...")
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def signature(value: Any) -> str:
    """Return the signature of a function or class, without `self`; annotations are texts."""
    found = inspect.signature(value)
    kept = [each for each in found.parameters.values() if each.name not in {"self", "cls"}]
    if inspect.isclass(value):
        found = found.replace(return_annotation=inspect.Signature.empty)
    text = re.sub(r" at 0x\w+>", ">", str(found.replace(parameters=kept)))
    text = re.sub(r"ForwardRef\(('[^']*')\)", r"\1", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def first_paragraph(text: str) -> str:
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "settings.md": settings,
    "commands.md": commands,
    "python-api.md": python_api,
}
