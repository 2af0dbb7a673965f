"""The flag `--context`: a command gets what a context says for the flags that it was not given.

| named by | what holds |
|---|---|
| `--context NAME` | the context; of the environment only `HUB_TOKEN`, if the context names no file of a token |
| `HUB_CONTEXT` | the same, unless `--url` is given |
| nothing | `--url`, else `HUB_URL`; without both the context in use (`hub context use`); else the default |

So what is shown to one hub does not reach another by accident: a context is never mixed with a URL from elsewhere.
Other flags hold before what a context says.

cyclopts calls `fill` for each command, between what it has read and what the command gets. Owner: nobody. Not here: the
file (`peers.cli.contexts`).
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter, Token
from cyclopts.argument import Argument, ArgumentCollection

from peers.cli.contexts import read_contexts
from peers.cli.errors import FlagError

__all__ = ["CONTEXT_VARIABLE", "ContextName", "context_names", "fill"]

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
