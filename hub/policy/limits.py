"""`read_limits`: the table `[limits]` of a policy: how much users may hold, and how fast they may publish.

```toml
[limits.roles.sensor]
connections = 2
bytes_per_s = "1MB"

[limits.users.sensor-7]
queued_bytes = "16MiB"
```

The keys are those of `hub.quotas.resource`, and two rates. Without a key a fair part applies (`hub.quotas.usage`), and
no rate.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from hub.errors import UsageError
from hub.policy.policy import check_user
from hub.quotas.limits import QuotaLimits, RateLimits, SetLimits
from hub.quotas.resource import Resource
from hub.settings.config import ConfigError
from hub.settings.keys import closest
from hub.sizes import parse_size
from hub.topics import printable

_MOST = 10**15  # Above it is a slip of the keyboard

_RESOURCES = {resource.value: resource for resource in Resource}
_SIZES = {*(resource.value for resource in Resource if resource.is_size), "bytes_per_s"}


class Complaints(Protocol):
    """What reads a policy, as far as its tables need it: it complains in the name of the policy's source."""

    def error(self, place: str, reason: str) -> ConfigError:
        """Return the error that names the place."""

    def check_keys(self, place: str, table: Mapping[str, object], known: tuple[str, ...]) -> None:
        """Raise on the first key that is not known."""

    def table(self, place: str, value: object) -> Mapping[str, object]:
        """Return a value that must be a table."""


def read_limits(reader: Complaints, value: object, roles: Collection[str]) -> QuotaLimits:
    """Read the limits of users and roles.

    Args:
        reader: Makes the errors.
        value: The value of `limits`, as a TOML file gives it.
        roles: The names of all roles.

    Raises:
        ConfigError: Something is wrong with it; the text names the place and what is expected there.
    """
    table = reader.table("limits", value)
    reader.check_keys("limits", table, ("roles", "users"))
    found: dict[str, dict[str, SetLimits]] = {"roles": {}, "users": {}}
    for kind, limits in found.items():
        for name, each in reader.table(f"limits.{kind}", table.get(kind, {})).items():
            place = f"limits.{kind}.{printable(name) if len(name) > 64 or not name.isprintable() else name}"
            _check_name(reader, place, name)
            if kind == "roles" and name not in roles:
                raise reader.error(place, f"there is no role {printable(name)}{closest(name, roles)}")
            limits[name] = _set_limits(reader, place, each)
    return QuotaLimits(found["users"], found["roles"])


def _check_name(reader: Complaints, place: str, name: str) -> None:
    try:
        check_user(name)
    except UsageError as error:
        raise reader.error(place, str(error)) from error


def _set_limits(reader: Complaints, place: str, value: object) -> SetLimits:
    table = reader.table(place, value)
    reader.check_keys(place, table, (*_RESOURCES, *RateLimits._fields))
    amounts = {key: _amount(reader, f"{place}.{key}", key, each) for key, each in table.items()}
    return SetLimits(
        {_RESOURCES[key]: amount for key, amount in amounts.items() if key in _RESOURCES},
        RateLimits(**{key: amount for key, amount in amounts.items() if key in RateLimits._fields}),
    )


def _amount(reader: Complaints, place: str, key: str, value: object) -> int:
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
    if not isinstance(amount, int) or isinstance(amount, bool) or not least <= amount <= _MOST:
        shown = printable(value) if isinstance(value, str) else _shown(value)
        raise reader.error(place, f"{shown} given, expected {expected}")
    return amount


def _shown(value: object) -> str:
    is_short = isinstance(value, float) or (isinstance(value, int) and -_MOST < value <= 10 * _MOST)
    return str(value) if is_short and not isinstance(value, bool) else f"a {type(value).__name__}"
