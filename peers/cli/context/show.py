"""`hub context show`: what one context says."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.columns import columns
from peers.cli.context.ls import shown
from peers.cli.context_flag import CONTEXT_VARIABLE, context_names
from peers.cli.contexts import read_contexts
from peers.cli.errors import FlagError
from peers.cli.texts import encoder

__all__ = ["show"]


def show(
    name: Annotated[
        str,
        Parameter(help="Which one; that in use without it.", env_var=CONTEXT_VARIABLE, completer=context_names),
    ] = "",
    /,
    *,
    json: Annotated[bool, Parameter(help="A JSON object.", negative=())] = False,
) -> None:
    """Show what a context says: where the hub is, and which files are shown there. No token is read."""
    contexts = read_contexts()
    name = name or contexts.use
    if not name:
        raise FlagError("no context is in use: hub context show NAME, or hub context use NAME")
    found = shown(name, contexts.named(name), in_use=name == contexts.use)
    if json:
        print(encoder.encode(found).decode())
        return
    found["in_use"] = "yes" if found["in_use"] else "no"
    for line in columns(("", ""), [(field.replace("_", " "), text) for field, text in found.items()])[1:]:
        print(line)
