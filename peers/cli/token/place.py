"""`Place`: the flags that say which file of tokens is meant, and under which policy. It is where `hub run` finds it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from hub.settings.access import AccessSettings
from peers.cli.errors import FlagError
from peers.daemon.sources import flag, load, variable
from peers.users.token_file import TokenFile

__all__ = ["Place"]

_KEY = "access.tokens"


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Where the hub's settings are, and what is set apart from them."""

    config: Annotated[
        str | None,
        Parameter(name="--config", help="The hub's TOML file with settings; HUB_CONFIG or ./hub.toml without it."),
    ] = None
    tokens: Annotated[str | None, Parameter(name=flag(_KEY), help="The file of tokens, in place of theirs.")] = None

    def settings(self) -> AccessSettings:
        """Return what is set.

        Raises:
            ConfigError: The settings are not right.
            FlagError: They name no file of tokens.
        """
        access = load({"access": {"tokens": self.tokens}}, os.environ, self.config).settings.access
        if not access.tokens:
            raise FlagError(
                f"no file of tokens is set: {_KEY} in the hub's file, {variable(_KEY)}, or {flag(_KEY)} FILE"
            )
        return access

    def file(self) -> TokenFile:
        """Return the file that is meant; the errors are those of `settings`."""
        return TokenFile(self.settings().tokens)
