"""`Contexts`: hubs by name, with what is shown to each, as somebody has written them down for himself.

```
$XDG_CONFIG_HOME/topichub/contexts.json   (~/.config/topichub/contexts.json)
{"use": "work", "contexts": {"work": {"url": "tls://hub.example.org:7400", "token_file": "/home/ada/token"}}}
```

Owner: whoever runs `hub context`; other commands only read it. Invariants: no token stands in it, only the path of the
file of one; it is readable for its owner alone, and one that others may write is not taken, as they could have his
token sent elsewhere. It is replaced as a whole, so that nobody reads half of it; of two who write at once one wins.

Not here: the commands (`peers.cli.context`), how a command gets what it names (`peers.cli.contexts`).

The flag `--context`: a command gets what a context says for the flags that it was not given.

| named by | what holds |
|---|---|
| `--context NAME` | the context; of the environment only `HUB_TOKEN`, if the context names no file of a token |
| `HUB_CONTEXT` | the same, unless `--url` is given |
| nothing | `--url`, else `HUB_URL`; without both the context in use (`hub context use`); else the default |

So what is shown to one hub does not reach another by accident.
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
    """How one hub is reached, and what is shown to it. Paths are absolute; what is empty is not said."""

    url: str
    token_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""

    def flags(self) -> dict[str, str]:
        """Return what it says for each flag of the commands; empty for what is not said."""
        fields: dict[str, str] = msgspec.structs.asdict(self)
        return {f"--{name.replace('_', '-')}": text for name, text in fields.items()}


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """All of them."""

    use: str = ""
    """The name of the one that is taken where no hub is named; empty for none."""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        """Return one of them.

        Raises:
            FlagError: There is none of this name.
        """
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise FlagError(f"there is no context {printable(name)}; `hub context ls` lists them: {known}")
        return self.contexts[name]


def check_context_name(name: str) -> None:
    """Check that a context may be called so.

    Raises:
        FlagError: It may not.
    """
    if not _NAME.fullmatch(name):
        raise FlagError(f"{printable(name)}: the name of a context is up to 64 letters, digits, dots, - and _")


def place() -> Path:
    """Return where they are."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"  # as XDG has it: others are not looked at
    return folder / "topichub" / "contexts.json"


def read_contexts() -> Contexts:
    """Return what is written there; nothing, if there is no file.

    Raises:
        UsageError: It cannot be read, holds something else, or others may write it.
    """
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
    """Write all of them, for their owner alone.

    Raises:
        UsageError: That cannot be done.
    """
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
"""What cyclopts calls the source of what stood on the command line."""


def context_names(_: object) -> list[str]:
    """Return the names that a shell offers."""
    return sorted(read_contexts().contexts)


ContextName = Annotated[
    str,
    Parameter(
        name=_FLAG,
        env_var=CONTEXT_VARIABLE,
        help="A hub by its name in `hub context`, in place of --url and what is shown there.",
        show_default=False,
        completer=context_names,
    ),
]
"""The flag `--context`, or the environment variable `HUB_CONTEXT`."""


def fill(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give a command that talks to a hub what a context says.

    Raises:
        FlagError: There is no such context, or a URL is given beside it.
        UsageError: Contexts cannot be read.
    """
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
    """Tell whether it stood on the command line."""
    return any(token.source == _FROM_COMMAND_LINE for token in argument.tokens)


def _fill(argument: Argument, token: Token, *, is_named: bool) -> None:
    """Give a flag what a context says; what the environment says is not meant for a hub that is named."""
    if is_named and not _is_given(argument):
        argument.tokens.clear()
    if token.value and not argument.has_tokens:
        argument.append(token)
