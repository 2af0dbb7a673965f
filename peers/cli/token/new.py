"""`hub token new`: make a token, and write its text to standard output.

That is the only time that it is written anywhere: the file has a hash of it. Nothing else goes to standard output, so
that it can be piped to where it is to be kept.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from hub.policy.policy import RESERVED_USERS, check_user
from hub.settings.access import AccessSettings
from hub.topics import printable
from peers.cli.errors import FlagError
from peers.cli.texts import escaped
from peers.cli.token.place import Place
from peers.cli.token.span import span_of
from peers.users.token_file import TokenFile
from peers.users.tokens import LABEL_CHARACTERS, Token
from peers.users.users import policy_of

__all__ = ["new"]


def new(
    user: Annotated[str, Parameter(help="Whose it is to be.")],
    /,
    *,
    role: Annotated[
        list[str] | None, Parameter(help="A role, beside those that the policy gives the user; repeat it.", negative=())
    ] = None,
    expires: Annotated[
        str | None, Parameter(help="How long it lasts, such as 12h or 30d; without it for ever.")
    ] = None,
    label: Annotated[str, Parameter(help="What it is for, in the list of tokens.")] = "",
    place: Place = Place(),  # noqa: B008 -- frozen
) -> None:
    """Make a token for a user, and write it to standard output, once; the hub's file has only its hash."""
    roles = tuple(dict.fromkeys(role or ()))
    for name in (user, *roles):
        check_user(name)
    if user in RESERVED_USERS:
        raise FlagError(f"{user!r} is a name that the hub gives itself; choose another")
    if len(label) > LABEL_CHARACTERS or not label.isprintable():
        raise FlagError(f"--label {printable(label)}: give at most {LABEL_CHARACTERS} characters that print")
    now = datetime.now(UTC).replace(microsecond=0)
    ends = None if expires is None else now + span_of("--expires", expires)
    access = place.settings()
    _check_known(access, user, roles)
    secret, token = TokenFile(access.tokens).add(user, now, ends=ends, roles=roles, label=label)
    print(secret)
    if sys.stderr.isatty():
        _tell(token, access.tokens)


def _check_known(access: AccessSettings, user: str, roles: tuple[str, ...]) -> None:
    """See to it that a hub would take the token.

    Raises:
        FlagError: It would not.
    """
    policy, source = policy_of(access)
    for role in roles:
        if role not in policy.roles:
            known = ", ".join(sorted(policy.roles)[:8])
            raise FlagError(f"--role {role}: there is no such role in {source}; there are {known}")
    if not roles and user not in policy:
        raise FlagError(f"{source} has no user {user!r}, who would not be let in: put him there, or give him a --role")


def _tell(token: Token, path: str) -> None:
    """Say on a terminal what was made."""
    until = "for ever" if token.ends is None else f"until {token.ends:%Y-%m-%d %H:%M} UTC"
    text = (
        f"token {token.id} of {token.user}, {until}; its hash is in {path}, which a running hub reads at `hub reload`"
    )
    print(escaped(f"hub token new: {text}"), file=sys.stderr)
