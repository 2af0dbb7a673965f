"""`hub token`: make, list and revoke tokens, in the file of `access.tokens`. Needs no hub; one that runs must reload.

A secret is written once, to standard output, and never read from a flag.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, Parameter

from hub.errors import UsageError
from hub.policy.policy import RESERVED_USERS, check_user
from hub.settings.settings import AccessSettings
from hub.topics import printable
from peers.cli.admin import ask
from peers.cli.contexts import DEFAULT_HUB, HubFlags, Json
from peers.cli.texts import FlagError, counted, encoder, escaped, examples, print_json, show
from peers.daemon.sources import flag, load, variable
from peers.users.tokens import LABEL_CHARACTERS, TokenFile
from peers.users.users import Question, decide, own_roles, policy_of, read_policy_file, told

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
        access = load({"access": {"tokens": self.tokens}}, os.environ, self.config).settings.access
        if not access.tokens:
            raise FlagError(
                f"no file of tokens is set: {_KEY} in the hub's file (--config FILE), {variable(_KEY)}, or "
                f"{flag(_KEY)} FILE"
            )
        return access

    def file(self) -> TokenFile:
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
    role: Annotated[list[str] | None, Parameter(help="A role, in addition to those of the policy; repeatable.")] = None,
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
        raise FlagError(f"{user!r} is a reserved name; choose another")
    if len(label) > LABEL_CHARACTERS or not label.isprintable():
        raise FlagError(f"--label {printable(label)}: give at most {LABEL_CHARACTERS} characters that print")
    now = datetime.now(UTC).replace(microsecond=0)
    ends = None if expires is None else now + span_of("--expires", expires)
    access = place.settings()
    _check_known(access, user, roles)
    secret, token = TokenFile(access.tokens).add(user, now, ends=ends, roles=roles, label=label)
    print(secret)
    if sys.stderr.isatty():
        until = "for ever" if token.ends is None else f"until {token.ends:%Y-%m-%d %H:%M} UTC"
        text = f"token {token.id} of {token.user}, {until}; its hash is in {access.tokens}, which a running hub reads"
        print(escaped(f"hub token new: {text} at `hub reload`"), file=sys.stderr)


def _check_known(access: AccessSettings, user: str, roles: tuple[str, ...]) -> None:
    policy, source = policy_of(access)
    for role in roles:
        if role not in policy.roles:
            known = ", ".join(sorted(policy.roles)[:8])
            raise FlagError(f"--role {role}: there is no such role in {source}; there are {known}")
    if not roles and user not in policy:
        raise FlagError(f"{source} has no user {user!r}: add the user there, or give a --role")


def listing(
    *,
    json: Json = False,
    place: Place = Place(),
) -> None:
    """List the tokens of the hub's file, the oldest first: user, creation and end of each."""
    found = sorted(place.file().read(), key=lambda token: token.created)
    if json:
        for token in found:
            members = msgspec.to_builtins(token)
            del members["sha256"]
            print_json({"id": token.id} | members)
        return
    now = datetime.now(UTC)
    rows = []
    for token in found:
        ends = "" if token.ends is None else _minute(token.ends) + (" (over)" if token.ends <= now else "")
        rows.append((token.id, token.user, ", ".join(token.roles), _minute(token.created), ends, token.label))
    show(("id", "user", "roles", "created (UTC)", "ends (UTC)", "label"), rows, text_columns=range(6))


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


token_app = App(
    name="token",
    help="Tokens that authenticate users: make, list, revoke.",
    help_epilogue=examples("hub token new ann --expires 30d --role sensor", "hub token list"),
)
token_app.command(new, name="new", help="Make a token, and print it once.")
token_app.command(listing, name="list", help="List the tokens with user, creation and end.")
token_app.command(revoke, name="revoke", help="Revoke a token.")


def check(file: Annotated[str, Parameter(name="FILE", help="The TOML file of the policy.")], /) -> None:
    """Read a policy as the hub does: exit code 0 if it is valid; if not, one line names the place and the cause."""
    policy = read_policy_file(file)
    roles, users = counted(len(policy.roles), "role"), counted(len(policy.users), "user")
    print(escaped(f"{file} is valid: {roles} with the built-in ones, {users}"))


_REFUSED = 1

Action = Literal[
    "publish",
    "subscribe",
    "request",
    "serve",
    "claim",
    "journal",
    "bring",
    "take",
    "consume",
    "label",
    "read-store",
    "write-store",
    "watch-store",
]
"""The keys of `hub.policy.policy.DEEDS`."""


async def trial(  # noqa: PLR0913 -- flags
    user: Annotated[str, Parameter(help='Name of the user; "" for any user with the roles of --role.')],
    action: Annotated[Action, Parameter(help="Action to test.")],
    topic: Annotated[
        str,
        Parameter(
            help="Object of the action: a topic; a prefix for subscribe, serve, journal, take, consume and label; a "
            "name for claim and for stores."
        ),
    ],
    /,
    *,
    policy: Annotated[
        str | None, Parameter(help="TOML file of the policy. Default: the one in the hub's settings.")
    ] = None,
    role: Annotated[list[str] | None, Parameter(help="A role that the user's token grants; repeatable.")] = None,
    config: Annotated[
        str | None, Parameter(help="TOML file with the hub's settings. Default: HUB_CONFIG or ./hub.toml.")
    ] = None,
    running: Annotated[bool, Parameter(help="Ask the hub at --url, for admins, instead of reading files.")] = False,
    hub: HubFlags = DEFAULT_HUB,
    json: Annotated[bool, Parameter(help="A JSON object.")] = False,
) -> int:
    """Test whether a user may do something; show which rule of which role decides, and the limits of the user.

    Exit code 0 if it is allowed, 1 if it is refused.
    """
    question = Question(user, tuple(role or ()), action, topic)
    if running:
        if policy is not None or config is not None:
            raise FlagError("--running asks a hub: leave out --policy and --config")
        asked = question._asdict()
        found: dict[str, Any] = (await ask("policy test", hub, asked, topic="policy/test"))["verdict"]
    else:
        found = _by_files(question, policy, config)
    print(escaped(encoder.encode(found).decode()) if json else "\n".join(map(escaped, _lines(found))))
    return 0 if found["allowed"] else _REFUSED


def _by_files(question: Question, policy: str | None, config: str | None) -> dict[str, Any]:
    settings = load({"access": {"policy": policy}}, os.environ, config).settings
    compiled, _ = policy_of(settings.access)
    try:
        found = decide(compiled, question, own_roles(settings))
    except UsageError as error:
        raise FlagError(str(error)) from error
    return told(question, found)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{'allowed' if found['allowed'] else 'refused'}: {found['text']}"
    for limit in found["limits"]:
        if limit["most"] is not None:
            yield f"  limit: {limit['key']} {limit['most']:,}"


policy_app = App(
    name="policy",
    help="Check a policy, and test its permissions.",
    help_epilogue=examples("hub policy check policy.toml", "hub policy test alice publish /zeek/dns"),
)
policy_app.command(check, name="check", help="Check a policy file for errors.")
policy_app.command(trial, name="test", help="Test whether a user may do something, and which rule decides.")


def new_pair(
    name: Annotated[str, Parameter(help="Name of the files, without .key and .pub.")],
    /,
) -> None:
    """Make a pair of keys: NAME.key has the secret key, NAME.pub the public one, which is also written to stdout."""
    from peers.connections.zeek_cluster.remote_end import need_curve  # noqa: PLC0415 -- needs packages of the server

    need_curve()
    from peers.users.files import write_public, write_secret  # noqa: PLC0415 -- as above
    from peers.zeek.zmtp.curve import KeyPair  # noqa: PLC0415 -- it needs PyNaCl
    from peers.zeek.zmtp.z85 import encode_key  # noqa: PLC0415 -- as above

    pair = KeyPair.new()
    secret, public = Path(f"{name}.key"), Path(f"{name}.pub")
    write_public(public, pair.public)
    try:
        write_secret(secret, pair.secret)
    except BaseException:
        public.unlink()
        raise
    print(encode_key(pair.public))


curve_app = App(
    name="curve",
    help="CURVE keys for Zeek clusters over ZeroMQ: make a pair.",
    help_epilogue=examples("hub curve new broker", "hub curve new node"),
)
curve_app.command(new_pair, name="new", help="Make a pair of keys, in two files.")
