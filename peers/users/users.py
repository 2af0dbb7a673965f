"""`Users`: credentials and policy, from the files of `access.*`; `Question`: may a user do something?

`read_users` takes 0.9 s of CPU for 100,000 rules: a running hub calls it in a thread, within
`peers.server.memory.undisturbed`.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hub.errors import UsageError
from hub.names.claim import check_name
from hub.policy.certificate_name import CertificateName
from hub.policy.language import Accounts, read_accounts, read_policy
from hub.policy.policy import (
    ADMIN,
    ANONYMOUS,
    ANYBODY,
    DEEDS,
    LOCAL,
    ZEEK,
    Action,
    Deed,
    Policy,
    Verdict,
    check_user,
    verdict,
)
from hub.settings.keys import ConfigError
from hub.settings.settings import AccessSettings, Settings, ZeekSettings
from hub.topics import check_prefix, check_topic, printable
from peers.users.files import decoded, parse_toml, read_clients, read_file
from peers.users.tokens import NO_TOKENS, AdminToken, TokenFile, Tokens

if TYPE_CHECKING:
    from peers.users.jwts import Jwts


_LARGEST_POLICY_BYTES = 64 * 1024 * 1024  # Twenty times what 100,000 rules and 10,000 users take
_UID_DIGITS = 10  # Numbers of accounts have 32 bits
_BUILT_IN = "the built-in policy"


class Users(NamedTuple):
    """Credentials and policy."""

    policy: Policy | None = None  # None where no access is configured, so that everything is allowed
    certificates: Mapping[CertificateName, str] = {}  # Name of a certificate → user
    tokens: Tokens = NO_TOKENS
    jwts: Jwts | None = None
    unix: Mapping[int, str] = {}  # Account on this machine → user
    # Accounts that administer the hub over a Unix socket, if `unix` does not say another user: the hub's own, root
    own_uids: frozenset[int] = frozenset()
    anonymous: str = ""  # The role of clients without credentials; empty if they are not let in
    curve_clients: frozenset[bytes] = frozenset()  # Public keys of nodes of Zeek clusters that may connect


NOBODY = Users()
_ZEEK = ZeekSettings()


def read_users(settings: AccessSettings, zeek: ZeekSettings = _ZEEK) -> Users:
    """Read all files of the settings; the role of Zeeks (`zeek.role`) must be in the policy, too."""
    if not (settings.policy or settings.tokens or settings.admin_token or settings.jwt_keys or settings.anonymous):
        return NOBODY._replace(curve_clients=read_clients(zeek))
    # Small files first: to free a policy that was compiled for nothing stops everything for 0.1 s.
    tokens, jwts, curve_clients = _tokens(settings), _jwts(settings), read_clients(zeek)
    source = settings.policy or _BUILT_IN
    policy, accounts = _compiled(settings.policy)
    for key, role in (("access.anonymous", settings.anonymous), ("zeek.role", zeek.role)):
        if role and role not in policy.roles:
            known = ", ".join(sorted(policy.roles)[:_SHOWN_ROLES])
            raise ConfigError("", key, f"there is no role {printable(role)} in {source}; there are {known}")
    return Users(
        policy,
        accounts.certificates,
        tokens,
        jwts,
        _unix(accounts, source),
        frozenset({0, os.geteuid()}),
        settings.anonymous,
        curve_clients,
    )


def policy_of(settings: AccessSettings) -> tuple[Policy, str]:
    """Return the policy of the settings, and its name for errors."""
    return read_policy_file(settings.policy), settings.policy or _BUILT_IN


def read_policy_file(path: str) -> Policy:
    """Read and compile a policy's file; an empty path stands for the built-in roles."""
    policy, accounts = _compiled(path)
    _unix(accounts, path or _BUILT_IN)
    return policy


def _compiled(path: str) -> tuple[Policy, Accounts]:
    source = path or _BUILT_IN
    text = decoded(read_file(Path(path), _LARGEST_POLICY_BYTES, "a policy"), path) if path else ""
    tree = parse_toml(text, source)
    if source != _BUILT_IN and not tree:  # an editor, or a full disk, may have cut the file off
        raise ConfigError(
            source, "", "the policy is empty, so that it would reject all users; [roles] and [users] are expected"
        )
    policy = read_policy(tree, source)
    return policy, read_accounts(tree, policy, source)


def _tokens(settings: AccessSettings) -> Tokens:
    tokens = TokenFile(settings.tokens).read() if settings.tokens else NO_TOKENS
    if not settings.admin_token:
        return tokens
    admin = AdminToken(settings.admin_token).token()
    return Tokens({token.sha256: token for token in (*tokens, admin)})


def _jwts(settings: AccessSettings) -> Jwts | None:
    if not settings.jwt_keys:
        return None
    for key in ("jwt_issuer", "jwt_audience", "jwt_user", "jwt_roles"):
        if not getattr(settings, key):
            raise ConfigError("", f"access.{key}", "empty, which would take tokens that are not for this hub; set it")
    # Imported on demand, as it takes 50 ms and 11 MB.
    from peers.users.jwts import Jwts, read_keys  # noqa: PLC0415

    return Jwts(read_keys(Path(settings.jwt_keys)), settings)


def _unix(accounts: Accounts, source: str) -> Mapping[int, str]:
    found: dict[int, str] = {}
    for account, user in accounts.unix.items():
        uid = _uid(account)
        if uid is None or found.setdefault(uid, user) != user:
            reason = "there is no such account here" if uid is None else f"account {uid} is that of another user above"
            raise ConfigError(source, f"unix.{printable(account)[1:-1]}", reason)
    return found


def _uid(account: str) -> int | None:
    if account.isascii() and account.isdigit():
        return int(account) if len(account) <= _UID_DIGITS else None
    try:
        return pwd.getpwnam(account).pw_uid
    except (KeyError, ValueError):
        return None


# Questions to the policy: `hub policy test` asks them of a file, `$hub/policy/test` of a hub.

_SHOWN_ROLES = 8

# Of targets; all others are prefixes
_CHECKS = {
    Action.PUBLISH: check_topic,
    Action.REQUEST: check_topic,
    Action.BRING: check_topic,
    Action.CLAIM: check_name,
}


class Question(NamedTuple):
    """Of `hub policy test`."""

    user: str  # Empty for any user with the roles
    roles: tuple[str, ...]  # From a token, beside those of the policy
    action: str  # One of `DEEDS`
    topic: str


def own_roles(settings: Settings) -> Mapping[str, str]:
    """Return the role that the hub itself gives to each of its own users; empty for users that are not let in."""
    return {ANONYMOUS: settings.access.anonymous, LOCAL: ADMIN, ZEEK: settings.zeek.role}


def asked_deed(question: Question) -> Deed:
    """Return the action, or raise a `UsageError` if the action or the topic is invalid."""
    if question.action not in DEEDS:
        raise UsageError(f"there is no action {printable(question.action)}; there are {', '.join(DEEDS)}")
    deed = DEEDS[question.action]
    _CHECKS.get(deed.action, check_prefix)(deed.to(question.topic))
    return deed


def is_stranger(policy: Policy, question: Question, own: Mapping[str, str]) -> bool:
    """Return whether a user would not be let in, as they have no role."""
    user = question.user
    return bool(user) and not question.roles and not own.get(user) and user not in policy


def decide(policy: Policy, question: Question, own: Mapping[str, str]) -> Verdict:
    """Return the verdict of a policy, or raise a `UsageError` for an unknown role, action, user or topic."""
    user, roles, _, topic = question
    if user:
        check_user(user)
    elif not roles:
        raise UsageError("expected a user, or a role, or both")
    deed = asked_deed(question)
    if own.get(user):
        roles = (*roles, own[user])
    for name in roles:
        if name not in policy.roles:
            shown = ", ".join(sorted(policy.roles)[:_SHOWN_ROLES])
            raise UsageError(f"there is no role {printable(name)}; there are {shown}")
    if is_stranger(policy, question, own):
        return Verdict(False, f"there is no user {printable(user)}, and no role is given: this user may not connect")
    return verdict(policy, user or ANYBODY, roles, deed, topic)


def told(question: Question, found: Verdict) -> dict[str, Any]:
    return {
        "user": question.user,
        "roles": list(question.roles),
        "action": question.action,
        "topic": question.topic,
        "allowed": found.allowed,
        "text": found.text,
        "rule": None if found.rule is None else found.rule._asdict(),
        "limits": [bound._asdict() for bound in found.bounds],
    }
