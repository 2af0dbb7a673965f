"""`hub context ls`: which contexts there are."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from peers.cli.columns import columns
from peers.cli.contexts import Context, read_contexts
from peers.cli.texts import encoder

__all__ = ["ls", "shown"]

_HEADINGS = ("name", "in use", "url", "token file")


def ls(*, json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False) -> None:
    """List the hubs that are written down, by name."""
    contexts = read_contexts()
    found = sorted(contexts.contexts.items())
    if json:
        for name, context in found:
            print(encoder.encode(shown(name, context, in_use=name == contexts.use)).decode())
        return
    if not found:
        print("hub context: there are no contexts; hub context add NAME --url URL makes one", file=sys.stderr)
        return
    rows = [(name, "yes" if name == contexts.use else "", one.url, one.token_file) for name, one in found]
    for line in columns(_HEADINGS, rows):
        print(line)


def shown(name: str, context: Context, *, in_use: bool) -> dict[str, Any]:
    """Return a context as an object; what it does not say is null."""
    said = {flag.removeprefix("--").replace("-", "_"): text or None for flag, text in context.flags().items()}
    return {"name": name, "in_use": in_use, **said}
