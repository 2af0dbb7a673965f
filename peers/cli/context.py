"""`hub context`: hubs by name, with the files that are shown to each. Needs no hub."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from peers.cli.contexts import (
    Context,
    check_context_name,
    context_names,
    read_contexts,
    write_contexts,
)
from peers.cli.flag_values import FlagError
from peers.cli.texts import columns, encoder, examples
from peers.cli.url import ASKED, first_token
from peers.transport.endpoints import Endpoint


def _file(help_text: str) -> Parameter:
    return Parameter(help=help_text, show_default=False)


def add(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="Name of the context.")],
    /,
    *,
    url: Annotated[str, Parameter(help="tcp://, tls://, ws:// or wss:// with host:port, or unix:///path.")],
    token_file: Annotated[str, _file("File with the token that authenticates this client.")] = "",
    ca: Annotated[str, _file("Over TLS: PEM file of CA certificates. Default: those of the system.")] = "",
    certificate: Annotated[str, _file("Over TLS: PEM file of a client certificate, for a hub that asks for one.")] = "",
    key: Annotated[str, _file("PEM file of the key of that certificate.")] = "",
    use: Annotated[bool, Parameter(help="Make it the default, where no hub is named.", negative=())] = False,
    replace: Annotated[bool, Parameter(help="Replace an existing context of this name.", negative=())] = False,
) -> None:
    """Save a hub under a name, for `--context`. Only the path of the token file is stored, not the token."""
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
    return path and str(Path(path).absolute())


_HEADINGS = ("name", "in use", "url", "token file")


def ls(*, json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False) -> None:
    """List the saved hubs by name."""
    contexts = read_contexts()
    found = sorted(contexts.contexts.items())
    if json:
        for name, context in found:
            said = {flag.removeprefix("--").replace("-", "_"): text or None for flag, text in context.flags().items()}
            print(encoder.encode({"name": name, "in_use": name == contexts.use, **said}).decode())
        return
    if not found:
        print("hub context: there are no contexts; hub context add NAME --url URL makes one", file=sys.stderr)
        return
    rows = [(name, "yes" if name == contexts.use else "", one.url, one.token_file) for name, one in found]
    for line in columns(_HEADINGS, rows):
        print(line)


def rm(name: Annotated[str, Parameter(help="Name of the context.", completer=context_names)], /) -> None:
    """Remove a context; if it was in use, no context is. Its token file stays."""
    contexts = read_contexts()
    contexts.named(name)
    del contexts.contexts[name]
    if contexts.use == name:
        contexts.use = ""
    write_contexts(contexts)


def use(
    name: Annotated[str, Parameter(help="Name of the context.", completer=context_names)] = "",
    /,
    *,
    none: Annotated[bool, Parameter(help="Use no context: the default URL applies again.", negative=())] = False,
) -> None:
    """Use a context by default, where neither `--url` nor `--context` names a hub."""
    if bool(name) == none:
        raise FlagError("give the name of a context, or --none")
    contexts = read_contexts()
    if name:
        contexts.named(name)
    contexts.use = name
    write_contexts(contexts)


app = App(
    name="context",
    help="Named hubs, each with URL, token and TLS files: add, list, use.",
    help_epilogue=examples(
        "hub context add prod --url tls://hub.example.org:7400 --token-file prod.token", "hub context use prod"
    ),
)
app.command(add, name="add", help="Save a hub under a name.")
app.command(ls, name="ls", help="List the contexts, and which one is in use.")
app.command(use, name="use", help="Make a context the default, where no hub is named.")
app.command(rm, name="rm", help="Remove a context. The files it names stay.")
