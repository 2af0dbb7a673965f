"""`hub context rm`: forget a context."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.context_flag import context_names
from peers.cli.contexts import read_contexts, write_contexts

__all__ = ["rm"]


def rm(name: Annotated[str, Parameter(help="Which one.", completer=context_names)], /) -> None:
    """Forget a context; if it was in use, none is any more. The file of its token stays."""
    contexts = read_contexts()
    contexts.named(name)
    del contexts.contexts[name]
    if contexts.use == name:
        contexts.use = ""
    write_contexts(contexts)
