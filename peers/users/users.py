"""`Users`: everything by which somebody is recognised, as the files of `access.*` have it.

Owner: `peers.users.access`, which swaps it whole. Invariants: a `Users` never changes; it was read from files that were
all right, or there is none. Cost: `read_users` reads and compiles files, which may take a second: a running hub calls
it in a thread.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hub.config import ConfigError
from hub.policy.language import read_policy
from hub.policy.policy import Policy
from hub.settings import AccessSettings
from hub.topics import printable
from peers.users.files import read_toml

__all__ = ["NOBODY", "Users", "read_users"]


class Users(NamedTuple):
    """By what users are recognised."""

    policy: Policy | None = None
    """Who may do what; None where nothing is set, so that nobody is asked and everything is allowed."""
    anonymous: str = ""
    """The role of those who show nothing; empty if they are not let in."""
    unix: Mapping[int, str] = {}
    """The user of each account on this machine that has one."""
    own_uids: frozenset[int] = frozenset()
    """Accounts that administer the hub over a Unix socket, if `unix` does not say another user: the hub's own, root."""


_LARGEST_POLICY_BYTES = 64 * 1024 * 1024
"""Twenty times what 100,000 rules and 10,000 users take."""

NOBODY = Users()
"""Nothing is set."""


def read_users(settings: AccessSettings) -> Users:
    """Read everything that the settings name.

    Raises:
        ConfigError: Something is wrong with a file; the text names it, the place in it, and what is expected there.
    """
    if settings == AccessSettings():
        return NOBODY
    if settings.tokens or settings.jwt_keys:
        raise ConfigError("", "access", "tokens are not read yet")
    source = settings.policy or "the built-in policy"
    policy = read_policy(_policy_tree(settings.policy), source)
    if settings.anonymous and settings.anonymous not in policy.roles:
        known = ", ".join(sorted(policy.roles)[:8])
        reason = f"there is no role {printable(settings.anonymous)} in {source}; there are {known}"
        raise ConfigError("", "access.anonymous", reason)
    return Users(policy, settings.anonymous, {}, frozenset({0, os.geteuid()}))


def _policy_tree(path: str) -> dict[str, object]:
    return read_toml(Path(path), _LARGEST_POLICY_BYTES, "a policy") if path else {}
