"""Settings, commands with their flags, and the names and signatures of the clients, as users have them."""

from __future__ import annotations

import enum
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from cyclopts import App

import peers.client
import peers.embedding
from peers.cli.commands import app
from peers.client import blocking
from peers.client.journal import History
from tests.cli.programs import hub
from tests.console.node import node_command, start_node
from tests.contracts.golden import check
from tests.contracts.reference import INSIDE, signature

HUB_JS = Path(__file__).parents[2] / "peers" / "console" / "static" / "hub.js"


def test_settings() -> None:
    shown = hub("check-config", "--json")
    assert (shown.returncode, shown.stderr) == (0, b"")
    settings = map(json.loads, shown.stdout.splitlines())
    check("settings.txt", (f"{one['setting']} = {json.dumps(one['value'])} {one['unit']}".rstrip() for one in settings))


def test_commands() -> None:
    check("commands.txt", _flags(app, "hub"))


def _flags(command: App, name: str) -> Iterator[str]:
    yield name
    inner = [each for each in command if not each.startswith("-")]
    for each in inner:
        yield from _flags(command[each], f"{name} {each}")
    if not inner and name not in {"hub run", "hub check-config"}:
        for argument in command.assemble_argument_collection(default_parameter=app.default_parameter):
            yield from (f"{name} {flag}" for flag in argument.names if flag.startswith("--"))


PACKAGES = {"client.txt": [peers.client, blocking], "embedding.txt": [peers.embedding]}

BESIDE: dict[Any, list[type]] = {peers.client: [History]}
"""Classes that programs are given by a call, and need no name for."""

MADE = {"BlockingHub", "Hub", "QueueWish"}  # Classes that programs make; objects of all others are given to them


@pytest.mark.parametrize("golden", PACKAGES)
def test_python(golden: str) -> None:
    lines: list[str] = []
    for package in PACKAGES[golden]:
        found = {name: getattr(package, name) for name in package.__all__}
        found |= {owner.__name__: owner for owner in BESIDE.get(package, [])}
        for name, value in found.items():
            lines += _described(f"{package.__name__}.{name}", value)
    check(golden, lines)


def _described(path: str, value: Any) -> Iterator[str]:
    if inspect.isfunction(value):
        yield path + _signature(value)
    elif not inspect.isclass(value):
        yield f"{path}: {value}"
    elif issubclass(value, BaseException):
        bases = [base.__name__ for base in value.__mro__[1:] if base.__module__.startswith(("hub", "peers"))]
        yield f"{path}: {', '.join(bases)}"
        yield from (f"{path}.{name}" for name in _attributes(value))
    elif issubclass(value, dict):
        yield from (f"{path}.{name}: {told.__forward_arg__}" for name, told in value.__annotations__.items())
    elif issubclass(value, enum.Enum):
        yield from (f"{path}.{member.name} = {member.value!r}" for member in value)
    else:
        fields = ", ".join(getattr(value, "_fields", ()))
        yield path + (_signature(value) if value.__name__ in MADE else f": {fields}" * bool(fields))
        for name in _attributes(value):
            member = inspect.getattr_static(value, name, None)
            if isinstance(member, classmethod | staticmethod):
                member = member.__func__
            text = _signature(member) if inspect.isfunction(member) else ""
            yield f"{path}.{name}" + re.sub(r"\bT\b", _item(value), text)


def _item(owner: type) -> str:
    arguments = [each for base in getattr(owner, "__orig_bases__", ()) for each in get_args(base)]
    return str(getattr(arguments[-1], "__name__", "T")) if arguments else "T"


def _attributes(owner: type) -> set[str]:
    own = [each for each in owner.__mro__ if each.__module__.startswith(("hub", "peers"))]
    found = set(dir(owner)) | set(getattr(owner, "__annotations__", ()))
    found |= {name for each in own for name in re.findall(r"self\.(\w+)(?:: [^=]+)? = ", inspect.getsource(each))}
    beyond = INSIDE.get(owner.__name__, set()).union(dir(OSError), dir(tuple))
    return {name for name in found if not name.startswith("_")} - beyond


def _signature(value: Any) -> str:
    return signature(value) + (" async" if inspect.iscoroutinefunction(value) else "")


INSIDE_JS = ["ClaimedName.end", "ClaimedName.stand", "ClaimedName.standing"]
INSIDE_JS += ["ClaimedName.confirmed", "Subscription.confirmed", "Subscription.confirmedBy", "Subscription.ended"]
"""What only the parts of hub.js use."""


async def test_hub_js() -> None:
    command = node_command()
    if isinstance(command, str):
        pytest.skip(f"NODE IS MISSING: {command}")
    async with start_node(command) as node:
        lines = await node.evaluate(_LIST, url=HUB_JS.as_uri(), inside=INSIDE_JS)
    check("hub_js.txt", lines)


_LIST = """
const hub = await import(url);
class Silent {
  constructor() { this.readyState = 0; }
  addEventListener() {} removeEventListener() {} close() {} send() {}
}
const client = hub.connect("ws://127.0.0.1:1/v1/hub", { WebSocket: Silent });
const lines = [];
const parameters = (text) => {
  let depth = 0;
  const start = text.indexOf("(");
  for (let at = start; at < text.length; at += 1) {
    depth += "([{".includes(text[at]) - ")]}".includes(text[at]);
    if (depth === 0) return text.slice(start, at + 1).replace(/\\s+/g, " ");
  }
};
const members = (name, prototype) => {
  for (let each = prototype; !/native code/.test(each.constructor.toString()); each = Object.getPrototypeOf(each))
    for (const [key, told] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (key !== "constructor" && !key.startsWith("_") && !inside.includes(`${name}.${key}`))
        lines.push(`${name}.${key}${typeof told.value === "function" ? parameters(told.value.toString()) : ""}`);
};
for (const [name, value] of Object.entries(hub)) {
  const is_class = /^class\\b/.test(value.toString());
  lines.push(is_class ? name : name + parameters(value.toString()));
  if (is_class) members(name, value.prototype);
}
members("Client", Object.getPrototypeOf(client));
members("Store", Object.getPrototypeOf(client.store("x")));
members("ClaimedName", Object.getPrototypeOf(client.claim("org.x")));
members("Subscription", Object.getPrototypeOf(client.subscribe("/a", () => {})));
client.close();
return lines;
"""
