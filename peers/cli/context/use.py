"""`hub context use`: which context is taken where no hub is named."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.context_flag import context_names
from peers.cli.contexts import read_contexts, write_contexts
from peers.cli.errors import FlagError

__all__ = ["use"]


def use(
    name: Annotated[str, Parameter(help="Which one.", completer=context_names)] = "",
    /,
    *,
    none: Annotated[bool, Parameter(help="None: the default is taken again.", negative=())] = False,
) -> None:
    """Take a context where neither `--url` nor `--context` names a hub, from now on."""
    if bool(name) == none:
        raise FlagError("give the name of a context, or --none")
    contexts = read_contexts()
    if name:
        contexts.named(name)
    contexts.use = name
    write_contexts(contexts)
