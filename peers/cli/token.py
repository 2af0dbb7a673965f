"""`hub token`: make, list and revoke tokens, in the file of `access.tokens`. Needs no hub; one that runs must reload.

A secret is written once, to standard output, and never read from a flag.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from hub.policy.policy import RESERVED_USERS, check_user
from hub.settings.settings import AccessSettings
from hub.topics import printable
from peers.cli.flag_values import FlagError
from peers.cli.texts import escaped, examples, print_json, show
from peers.daemon.sources import flag, load, variable
from peers.users.tokens import LABEL_CHARACTERS, Token, TokenFile
from peers.users.users import policy_of

_KEY = "access.tokens"


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """The hub's settings, and the file of tokens in their place."""

    config: Annotated[
        str | None,
        Parameter(name="--config", help="TOML file with the hub's settings. Default: HUB_CONFIG or ./hub.toml."),
    ] = None
    tokens: Annotated[
        str | None, Parameter(name=flag(_KEY), help="File of tokens, instead of that in the settings.")
    ] = None

    def settings(self) -> AccessSettings:
        """Return the access settings; raise `FlagError` if they name no file of tokens."""
        access = load({"access": {"tokens": self.tokens}}, os.environ, self.config).settings.access
        if not access.tokens:
            raise FlagError(
                f"no file of tokens is set: {_KEY} in the hub's file, {variable(_KEY)}, or {flag(_KEY)} FILE"
            )
        return access

    def file(self) -> TokenFile:
        """Return the file of tokens."""
        return TokenFile(self.settings().tokens)


_SPAN = re.compile(r"([1-9][0-9]{0,7})([smhdw])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}

_LONGEST = timedelta(days=36_525)
"""A hundred years: longer spans are typing errors."""


def span_of(flag: str, text: str) -> timedelta:
    """Return the time span of a number and a unit, or raise `FlagError`."""
    found = _SPAN.fullmatch(text)
    span = timedelta(seconds=int(found[1]) * _UNITS_S[found[2]]) if found else timedelta()
    if not timedelta() < span <= _LONGEST:
        raise FlagError(f"{flag} {text!r}: give a number with s, m, h, d or w, such as 30d, and no more than 36525d")
    return span


def new(
    user: Annotated[str, Parameter(help="User of the token.")],
    /,
    *,
    role: Annotated[
        list[str] | None, Parameter(help="A role, in addition to those of the policy; repeatable.", negative=())
    ] = None,
    expires: Annotated[
        str | None, Parameter(help="Lifetime of the token, such as 12h or 30d. Default: unlimited.")
    ] = None,
    label: Annotated[str, Parameter(help="Purpose of the token, shown in the list of tokens.")] = "",
    place: Place = Place(),
) -> None:
    """Make a token for a user, and print it once; the hub's file has only its hash."""
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
    """Check that a hub would take the token."""
    policy, source = policy_of(access)
    for role in roles:
        if role not in policy.roles:
            known = ", ".join(sorted(policy.roles)[:8])
            raise FlagError(f"--role {role}: there is no such role in {source}; there are {known}")
    if not roles and user not in policy:
        raise FlagError(f"{source} has no user {user!r}, who would not be let in: put him there, or give him a --role")


def _tell(token: Token, path: str) -> None:
    until = "for ever" if token.ends is None else f"until {token.ends:%Y-%m-%d %H:%M} UTC"
    text = (
        f"token {token.id} of {token.user}, {until}; its hash is in {path}, which a running hub reads at `hub reload`"
    )
    print(escaped(f"hub token new: {text}"), file=sys.stderr)


_HEADS = ("id", "user", "roles", "created (UTC)", "ends (UTC)", "label")


def listing(
    *,
    json: Annotated[bool, Parameter(help="A JSON object a line.", negative=())] = False,
    place: Place = Place(),
) -> None:
    """List the tokens of the hub's file, the oldest first: user, creation and end of each."""
    found = sorted(place.file().read(), key=lambda token: token.created)
    if json:
        print_json(*map(_object, found))
        return
    now = datetime.now(UTC)
    show(_HEADS, (_cells(token, now) for token in found), text_columns=range(len(_HEADS)))


def _object(token: Token) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(token)
    del plain["sha256"]
    return {"id": token.id} | plain


def _cells(token: Token, now: datetime) -> tuple[str, ...]:
    ends = "" if token.ends is None else _minute(token.ends) + (" (over)" if token.ends <= now else "")
    return token.id, token.user, ", ".join(token.roles), _minute(token.created), ends, token.label


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def revoke(
    token_id: Annotated[str, Parameter(name="ID", help="Id of the token, as `hub token list` shows it.")],
    /,
    *,
    place: Place = Place(),
) -> None:
    """Revoke a token: remove it from the hub's file, by its id."""
    token = place.file().revoke(token_id)
    label = f" ({token.label})" if token.label else ""
    print(escaped(f"revoked: token {token.id} of {token.user}{label}; a running hub knows after `hub reload`"))


app = App(
    name="token",
    help="Tokens that authenticate users: make, list, revoke.",
    help_epilogue=examples("hub token new ann --expires 30d --role sensor", "hub token list"),
)
app.command(new, name="new", help="Make a token, and print it once.")
app.command(listing, name="list", help="List the tokens with user, creation and end.")
app.command(revoke, name="revoke", help="Revoke a token.")
