"""Which hub, and as whom: the flags that all commands share which talk to a running hub."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.errors import FlagError
from peers.wire.hello import NAME_LIMIT_BYTES

__all__ = ["DEFAULT_URL", "URL_VARIABLE", "ClientName", "HubUrl", "check_client_name"]

DEFAULT_URL = "tcp://127.0.0.1:7400"
"""Where `hub run` listens when it is told nothing else."""

URL_VARIABLE = "HUB_URL"

HubUrl = Annotated[
    str,
    Parameter(
        name="--url",
        env_var=URL_VARIABLE,
        help="The hub: tcp://host:port, unix:///path or ws://host:port.",
    ),
]
"""The flag `--url`, or the environment variable `HUB_URL`."""

ClientName = Annotated[
    str,
    Parameter(name="--name", help="What the hub calls this client in its logs and in `hub top`, up to 64 bytes."),
]
"""The flag `--name`, checked by `check_client_name`."""


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
