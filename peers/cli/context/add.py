"""`hub context add`: write down how a hub is reached, and which file has the token that is shown there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from peers.cli.contexts import Context, check_context_name, read_contexts, write_contexts
from peers.cli.errors import FlagError
from peers.cli.shown_token import ASKED, first_token
from peers.transport.endpoints import Endpoint

__all__ = ["add"]


def _file(help_text: str) -> Parameter:
    return Parameter(help=help_text, show_default=False)


def add(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="What the hub is called here.")],
    /,
    *,
    url: Annotated[str, Parameter(help="tcp://, tls://, ws:// or wss:// with host:port, or unix:///path.")],
    token_file: Annotated[str, _file("File of the token by which the hub knows who this is.")] = "",
    ca: Annotated[str, _file("Over TLS: PEM file of authorities; the system's without it.")] = "",
    certificate: Annotated[str, _file("Over TLS: PEM file of a certificate, for a hub that asks for one.")] = "",
    key: Annotated[str, _file("PEM file of the key of that certificate.")] = "",
    use: Annotated[bool, Parameter(help="Take it where no hub is named, from now on.", negative=())] = False,
    replace: Annotated[bool, Parameter(help="In place of one that is called the same.", negative=())] = False,
) -> None:
    """Write a hub down under a name, for `--context`. Of the token only the path of its file is kept."""
    check_context_name(name)
    Endpoint.parse_remote(url)
    if token_file == ASKED:
        raise FlagError("--token-file: a context names a file; `-` is for the commands")
    first_token(token_file)  # a mistake is told at once
    for flag, path in (("--ca", ca), ("--certificate", certificate), ("--key", key)):
        if path and not Path(path).is_file():
            raise FlagError(f"{flag}: there is no file {path}")
    contexts = read_contexts()
    if name in contexts.contexts and not replace:
        raise FlagError(f"there is a context {name} already; --replace writes it anew")
    contexts.contexts[name] = Context(url, *map(_absolute, (token_file, ca, certificate, key)))
    if use:
        contexts.use = name
    write_contexts(contexts)


def _absolute(path: str) -> str:
    """Return a path that is the same wherever a command is run."""
    return path and str(Path(path).absolute())
