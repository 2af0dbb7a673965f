"""Where a hub is: the flags that every command shares which talks to a running hub."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

__all__ = ["DEFAULT_URL", "URL_VARIABLE", "ClientName", "HubUrl"]

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
"""The flag `--name`."""
