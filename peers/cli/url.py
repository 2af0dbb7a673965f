"""Which hub, and as whom: the flags that all commands share which talk to a running hub.

Annotations are not postponed here, nor in `peers.cli.pub` and `peers.cli.stream_flags`: cyclopts would compile each of
them twice for each command.
"""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from peers.cli.context_flag import ContextName
from peers.cli.errors import FlagError
from peers.cli.shown_token import TokenFile
from peers.wire.hello import NAME_LIMIT_BYTES

__all__ = [
    "DEFAULT_URL",
    "URL_VARIABLE",
    "CaFile",
    "CertificateFile",
    "HubFlags",
    "HubUrl",
    "KeyFile",
    "TlsFiles",
    "check_client_name",
]

DEFAULT_URL = "tcp://127.0.0.1:7400"
"""Where `hub run` listens when it is told nothing else."""

URL_VARIABLE = "HUB_URL"

HubUrl = Annotated[
    str,
    Parameter(
        name="--url",
        env_var=URL_VARIABLE,
        help="The hub: tcp://host:port, tls://host:port, unix:///path, ws://host:port or wss://host:port.",
    ),
]
"""The flag `--url`, or the environment variable `HUB_URL`."""

CaFile = Annotated[
    str,
    Parameter(
        name="--ca",
        env_var="HUB_CA",
        help="Over TLS: PEM file of authorities; the system's without it.",
        show_default=False,
    ),
]
"""The flag `--ca`, or the environment variable `HUB_CA`."""

CertificateFile = Annotated[
    str,
    Parameter(
        name="--certificate",
        env_var="HUB_CERTIFICATE",
        help="Over TLS: PEM file of a certificate, for a hub that asks for one.",
        show_default=False,
    ),
]
"""The flag `--certificate`, or the environment variable `HUB_CERTIFICATE`."""

KeyFile = Annotated[
    str,
    Parameter(name="--key", env_var="HUB_KEY", help="PEM file of the key of that certificate.", show_default=False),
]
"""The flag `--key`, or the environment variable `HUB_KEY`."""


@Parameter(name="*")
@dataclass(frozen=True)
class TlsFiles:
    """The files that TLS may need, for commands that call themselves what they are."""

    ca: CaFile = ""
    certificate: CertificateFile = ""
    key: KeyFile = ""


@Parameter(name="*")
@dataclass(frozen=True)
class HubFlags:
    """Which hub, what it is told of the client, what that shows for who it is, and the files that TLS may need.

    What a context says has become `url` and so on by the time that a command has these (`peers.cli.context_flag`).
    """

    url: HubUrl = DEFAULT_URL
    context: ContextName = ""
    name: Annotated[
        str,
        Parameter(
            name="--name",
            help="What the hub calls this client in its logs and in `hub top`, up to 64 bytes; else as the command.",
            show_default=False,
        ),
    ] = ""
    token_file: TokenFile = ""
    tls: TlsFiles = TlsFiles()


def check_client_name(name: str) -> None:
    """Check that a hub would take a name for a client.

    Raises:
        FlagError: It is too long, or not UTF-8.
    """
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise FlagError(f"--name: not UTF-8 at character {error.start}") from error
    if size_bytes > NAME_LIMIT_BYTES:
        raise FlagError(f"--name: {size_bytes} bytes given, at most {NAME_LIMIT_BYTES} are taken")
