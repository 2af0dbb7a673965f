"""Contexts: hubs by name, and the flag `--context`, which gives a command the flags that it was not given.

```
$XDG_CONFIG_HOME/topichub/contexts.json   (~/.config/topichub/contexts.json)
{"use": "work", "contexts": {"work": {"url": "tls://hub.example.org:7400", "token_file": "/home/ada/token"}}}
```

| named by | what holds |
|---|---|
| `--context NAME` | the context; of the environment only `HUB_TOKEN`, if the context names no token file |
| `HUB_CONTEXT` | the same, unless `--url` is given |
| nothing | `--url`, else `HUB_URL`; without both the context in use (`hub context use`); else the default |

The file holds paths of tokens, no tokens. One that others may write is not used: they could redirect the token.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter, Token
from cyclopts.argument import Argument, ArgumentCollection

from hub.errors import UsageError
from hub.topics import printable
from peers.cli.flag_values import FlagError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")

_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Context(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The URL of a hub, and the files that are shown to it; paths are absolute."""

    url: str
    token_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def flags(self) -> dict[str, str]:
        """Return the value of each flag, empty if the context says nothing."""
        fields: dict[str, str] = msgspec.structs.asdict(self)
        return {f"--{name.replace('_', '-')}": text for name, text in fields.items()}


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    use: str = ""
    """Name of the context for commands that name no hub; empty for none."""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        """Return a context, or raise `FlagError`."""
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise FlagError(f"there is no context {printable(name)}; `hub context ls` lists them: {known}")
        return self.contexts[name]


def check_context_name(name: str) -> None:
    """Raise `FlagError` unless a context may have this name."""
    if not _NAME.fullmatch(name):
        raise FlagError(f"{printable(name)}: the name of a context is up to 64 letters, digits, dots, - and _")


def place() -> Path:
    """Return the path of the file."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"  # as XDG has it: others are not looked at
    return folder / "topichub" / "contexts.json"


def read_contexts() -> Contexts:
    """Return the contexts; none, if there is no file. Raises `UsageError` if it cannot be used."""
    path = place()
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _FOR_OTHERS:
                raise UsageError(f"{path}: others may write this file, so it is not used: chmod 600 {path}")
            found = msgspec.json.decode(file.read(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: this is no file of contexts: {error}") from error
    if found.use and found.use not in found.contexts:
        raise UsageError(f"{path}: the context in use, {printable(found.use)}, is not there: hub context use NAME")
    return found


def write_contexts(contexts: Contexts) -> None:
    """Replace the file, readable for its owner alone; raise `UsageError` if that fails."""
    path = place()
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    text = msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor
            os.fchmod(descriptor, 0o600)
            file.write(text)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


CONTEXT_VARIABLE = "HUB_CONTEXT"

_FLAG, _URL = "--context", "--url"

_FROM_COMMAND_LINE = "cli"
"""The source of tokens of the command line in cyclopts."""


def context_names(_: object) -> list[str]:
    """Return the names for completion."""
    return sorted(read_contexts().contexts)


ContextName = Annotated[
    str,
    Parameter(
        name=_FLAG,
        env_var=CONTEXT_VARIABLE,
        help="Name of a hub in `hub context`, in place of --url, token and TLS files.",
        show_default=False,
        completer=context_names,
    ),
]


def fill(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give a command that talks to a hub the flags of its context: called by cyclopts."""
    by_name = {argument.name: argument for argument in arguments}
    if _FLAG not in by_name:
        return
    flag, url = by_name[_FLAG], by_name[_URL]
    is_chosen = _is_given(flag)
    if is_chosen and _is_given(url):
        raise FlagError(f"{_FLAG} and {_URL} exclude each other")
    if _is_given(url) or (not flag.has_tokens and url.has_tokens):
        return
    contexts = read_contexts()
    name = flag.tokens[-1].value if flag.has_tokens else contexts.use
    if not name:
        return
    for one, text in contexts.named(name).flags().items():
        if one in by_name:
            _fill(by_name[one], Token(keyword=one, value=text, source=f"context {name}"), is_named=flag.has_tokens)


def _is_given(argument: Argument) -> bool:
    """Return whether it was on the command line."""
    return any(token.source == _FROM_COMMAND_LINE for token in argument.tokens)


def _fill(argument: Argument, token: Token, *, is_named: bool) -> None:
    """Set a flag from a context; the environment does not count for a hub that is named."""
    if is_named and not _is_given(argument):
        argument.tokens.clear()
    if token.value and not argument.has_tokens:
        argument.append(token)
