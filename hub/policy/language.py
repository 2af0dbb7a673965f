"""`read_policy`: a policy as people write it (docs/policy.md). Each mistake is one error, which names the place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple, TypeVar

from hub.errors import UsageError
from hub.policy.certificate_name import CertificateName, parse_certificate_name
from hub.policy.grants import Path, parse_path
from hub.policy.policy import BUILT_IN, RESERVED_USERS, Action, Policy, RolePermissions, check_user
from hub.quotas import QuotaLimits, RateLimits, Resource, SetLimits
from hub.settings.keys import ConfigError, closest, parse_size
from hub.topics import printable

_TABLES = ("roles", "users", "certificates", "unix", "limits")
_LINK = {action.value: action for action in (Action.BRING, Action.TAKE)}
_PLAIN = {action.value: action for action in Action if action.value not in _LINK}
_ROLE_KEYS = (*_PLAIN, "link", "admin")
_VERDICTS = {"allow": True, "deny": False}
_MOST = 10**15  # Above it is a slip of the keyboard
_RESOURCES = {resource.value: resource for resource in Resource}
_SIZES = {*(resource.value for resource in Resource if resource.is_size), "bytes_per_s"}
T = TypeVar("T")


def read_policy(tree: Mapping[str, object], source: str) -> Policy:
    """Compile a policy.

    Args:
        tree: Nested dictionaries, as a TOML file gives them.
        source: The file, for errors.

    Raises:
        ConfigError: A part of it is wrong; the text names the place and the expected value.
    """
    reader = _Reader(source)
    reader.check_keys("", tree, _TABLES)
    roles = dict(BUILT_IN)
    roles |= {name: reader.role(name, value) for name, value in reader.table("roles", tree.get("roles", {})).items()}
    users = {
        name: reader.user(name, value, roles) for name, value in reader.table("users", tree.get("users", {})).items()
    }
    return Policy(roles, users, reader.limits(tree.get("limits", {}), roles))


class Accounts(NamedTuple):
    """Users by certificate and by account."""

    certificates: Mapping[CertificateName, str]  # By a name of the certificate
    unix: Mapping[str, str]  # By name or number of an account on this machine


def read_accounts(tree: Mapping[str, object], policy: Policy, source: str) -> Accounts:
    """Read the tables of certificates and accounts beside a policy; arguments and errors as `read_policy`."""
    reader = _Reader(source)
    certificates: dict[CertificateName, str] = {}
    for text, user in reader.users_of("certificates", tree, policy):
        place = _joined("certificates", text)
        name = reader.checked(place, parse_certificate_name, text)
        if name in certificates:
            raise reader.error(place, "the same certificates are in this table twice")
        certificates[name] = user
    return Accounts(certificates, dict(reader.users_of("unix", tree, policy)))


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source

    def error(self, place: str, reason: str) -> ConfigError:
        return ConfigError(self._source, place, reason)

    def checked(self, place: str, check: Callable[..., T], *arguments: str) -> T:
        """Return the result of a check; its `UsageError` names the place."""
        try:
            return check(*arguments)
        except UsageError as error:
            raise self.error(place, str(error)) from error

    def check_keys(self, place: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                where = f"in [{place}]" if place else "at the top level"
                expected = f"; there are {', '.join(known)}"
                raise self.error(_joined(place, key), f"unknown key {where}{closest(key, known) or expected}")

    def table(self, place: str, value: object) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            raise self.error(place, f"{_shown(value)} given, expected a table [{place}]")
        return value

    def role(self, name: str, value: object) -> RolePermissions:
        place = _joined("roles", name)
        self.checked(place, check_user, name)
        table = self.table(place, value)
        self.check_keys(place, table, _ROLE_KEYS)
        link_place = _joined(place, "link")
        link = self.table(link_place, table.get("link", {}))
        self.check_keys(link_place, link, tuple(_LINK))
        grants: dict[Action, list[tuple[Path, bool]]] = {}
        for where, keys, actions in ((place, table, _PLAIN), (link_place, link, _LINK)):
            for key, action in actions.items():
                if key in keys:
                    grants[action] = list(self._paths(_joined(where, key), keys[key], action))
        is_admin = table.get("admin", False)
        if not isinstance(is_admin, bool):
            raise self.error(_joined(place, "admin"), f"{_shown(is_admin)} given, expected true or false")
        return RolePermissions(grants, is_admin)

    def _paths(self, place: str, value: object, action: Action) -> Iterator[tuple[Path, bool]]:
        """Yield the paths of a list, which is allowed, or of a table with the keys `allow` and `deny`."""
        lists = [(place, value, True)]
        if isinstance(value, Mapping):
            self.check_keys(place, value, tuple(_VERDICTS))
            lists = [(_joined(place, key), value[key], allowed) for key, allowed in _VERDICTS.items() if key in value]
        for where, texts, allowed in lists:
            for number, text in enumerate(self._texts(where, texts, "paths")):
                yield self.checked(f"{where}[{number}]", parse_path, text, action.separator), allowed

    def user(self, name: str, value: object, roles: Mapping[str, object]) -> frozenset[str]:
        place = _joined("users", name)
        self.checked(place, check_user, name)
        if name in RESERVED_USERS:
            raise self.error(place, f"{name!r} is a reserved name; choose another")
        held = self._texts(place, value, "roles")
        for number, role in enumerate(held):
            if role not in roles:
                hint = closest(role, roles) or f"; there are {', '.join(list(roles)[:8]) or 'none'}"
                raise self.error(f"{place}[{number}]", f"there is no role {printable(role)}{hint}")
        return frozenset(held)

    def users_of(self, table: str, tree: Mapping[str, object], policy: Policy) -> Iterator[tuple[str, str]]:
        for key, user in self.table(table, tree.get(table, {})).items():
            place = _joined(table, key)
            if not isinstance(user, str):
                raise self.error(place, f"{_shown(user)} given, expected the name of a user")
            if user not in policy:
                raise self.error(place, f"there is no user {printable(user)} in [users]")
            yield key, user

    def _texts(self, place: str, value: object, expected: str) -> list[str]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(place, f"{_shown(value)} given, expected a list of {expected}")
        return value

    def limits(self, value: object, roles: Collection[str]) -> QuotaLimits:
        """Read the table `[limits]`: how much users may hold, and how fast they may publish."""
        table = self.table("limits", value)
        self.check_keys("limits", table, ("roles", "users"))
        found: dict[str, dict[str, SetLimits]] = {"roles": {}, "users": {}}
        for kind, limits in found.items():
            for name, each in self.table(f"limits.{kind}", table.get(kind, {})).items():
                place = _joined(f"limits.{kind}", name)
                self.checked(place, check_user, name)
                if kind == "roles" and name not in roles:
                    raise self.error(place, f"there is no role {printable(name)}{closest(name, roles)}")
                keys = self.table(place, each)
                self.check_keys(place, keys, (*_RESOURCES, *RateLimits._fields))
                amounts = {key: self._amount(f"{place}.{key}", key, amount) for key, amount in keys.items()}
                limits[name] = SetLimits(
                    {_RESOURCES[key]: amount for key, amount in amounts.items() if key in _RESOURCES},
                    RateLimits(**{key: amount for key, amount in amounts.items() if key in RateLimits._fields}),
                )
        return QuotaLimits(found["users"], found["roles"])

    def _amount(self, place: str, key: str, value: object) -> int:
        least = 1 if key in RateLimits._fields else 0
        expected = f"a whole number from {least} to {_MOST}"
        if key in _SIZES:
            expected = f"bytes from {least} to {_MOST}, as a number or a size such as '64KiB'"
        amount = value
        if isinstance(value, str) and key in _SIZES:
            try:
                amount = parse_size(value)
            except ValueError:
                amount = None
        if isinstance(amount, int) and not isinstance(amount, bool) and least <= amount <= _MOST:
            return amount
        # A number is shown as it is, unless it is so long that it would fill a terminal.
        is_short = isinstance(value, float) or (isinstance(value, int) and -_MOST < value <= 10 * _MOST)
        shown = str(value) if is_short and not isinstance(value, bool) else _shown(value)
        raise self.error(place, f"{shown} given, expected {expected}")


def _joined(place: str, key: str) -> str:
    shown = key if key.isprintable() and len(key) <= 64 else printable(key)
    return f"{place}.{shown}" if place else shown


def _shown(value: object) -> str:
    return printable(value) if isinstance(value, str) else f"a {type(value).__name__}"
