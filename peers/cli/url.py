"""Which hub, and as whom: flags of all commands that talk to a running hub. A token is never a flag.

Annotations are not postponed here, nor in `peers.cli.pub`: cyclopts would compile each of them twice for each command.
"""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hub.errors import UsageError
from peers.cli.contexts import ContextName
from peers.cli.flag_values import FlagError
from peers.client.token_source import Token, checked, read_token
from peers.wire.hello import NAME_LIMIT_BYTES

TOKEN_VARIABLE = "HUB_TOKEN"  # noqa: S105 -- its name

ASKED = "-"

_TERMINAL = Path("/dev/tty")

TokenFile = Annotated[
    str,
    Parameter(
        name="--token-file",
        env_var="HUB_TOKEN_FILE",
        help="File with the token that authenticates this client; - asks for it. Default: the token in HUB_TOKEN.",
        allow_leading_hyphen=True,  # for -, which asks
        show_default=False,
    ),
]


def shown_token(file: str) -> Token:
    """Return the token, or a function that reads its file again for each connection; raise `FlagError`."""
    text, path = text_or_path(file)
    return partial(read_token, path) if path else text


def text_or_path(file: str) -> tuple[str, str]:
    """Return the token, or the path of its file; the other text is empty. Raises `FlagError`."""
    if file in {"", ASKED}:
        return first_token(file), ""
    first_token(file)  # a mistake is told at once
    return "", file


def first_token(file: str) -> str:
    """Return the token as it is now, or raise `FlagError`, without showing any of it."""
    if not file:
        return os.environ.get(TOKEN_VARIABLE, "")
    try:
        return _ask() if file == ASKED else read_token(file)
    except UsageError as error:
        raise FlagError(f"--token-file: {error}") from error


def _ask() -> str:
    try:
        with _TERMINAL.open():
            pass
    except OSError as error:
        raise UsageError("there is no terminal to ask for the token; name a file, or set HUB_TOKEN") from error
    import getpass  # noqa: PLC0415 -- with what a terminal needs, for the few who are asked

    token = checked(getpass.getpass("token: ").strip())
    if not token:
        raise UsageError("no token was given")
    return token


DEFAULT_URL = "tcp://127.0.0.1:7400"
"""Default of `hub run`."""

URL_VARIABLE = "HUB_URL"

HubUrl = Annotated[
    str,
    Parameter(
        name="--url",
        env_var=URL_VARIABLE,
        help="The hub: tcp://host:port, tls://host:port, unix:///path, ws://host:port or wss://host:port.",
    ),
]

CaFile = Annotated[
    str,
    Parameter(
        name="--ca",
        env_var="HUB_CA",
        help="Over TLS: PEM file of CA certificates. Default: those of the system.",
        show_default=False,
    ),
]

CertificateFile = Annotated[
    str,
    Parameter(
        name="--certificate",
        env_var="HUB_CERTIFICATE",
        help="Over TLS: PEM file of a client certificate, for a hub that asks for one.",
        show_default=False,
    ),
]

KeyFile = Annotated[
    str,
    Parameter(name="--key", env_var="HUB_KEY", help="PEM file of the key of that certificate.", show_default=False),
]


@Parameter(name="*")
@dataclass(frozen=True)
class TlsFiles:
    """Files for TLS."""

    ca: CaFile = ""
    certificate: CertificateFile = ""
    key: KeyFile = ""


@Parameter(name="*")
@dataclass(frozen=True)
class HubFlags:
    """URL, name, token and TLS files of a connection. Contexts have been applied (`peers.cli.contexts`)."""

    url: HubUrl = DEFAULT_URL
    context: ContextName = ""
    name: Annotated[
        str,
        Parameter(
            name="--name",
            help="Name of this client in the hub's logs and `hub top`, up to 64 bytes. Default: the command.",
            show_default=False,
        ),
    ] = ""
    token_file: TokenFile = ""
    tls: TlsFiles = TlsFiles()


def check_client_name(name: str) -> None:
    """Raise `FlagError` if a hub would not take this name for a client."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise FlagError(f"--name: not UTF-8 at character {error.start}") from error
    if size_bytes > NAME_LIMIT_BYTES:
        raise FlagError(f"--name: {size_bytes} bytes given, at most {NAME_LIMIT_BYTES} are taken")
