"""`merge`: how several layers of plain values become one `Settings`; `reloaded`, what a reload makes of it; and `told`.

`merge` lays layers of plain nested dictionaries over the defaults, checks each value by its key (`hub.keys`), and
remembers which layer each value came from.

Owner of the state: nobody, these are frozen values. Where the layers come from (file, environment, flags) is the
business of `peers.daemon.sources`; this module reads nothing.

Invariants: a `Settings` made by `merge` is within every range and agrees with itself (no default queue is larger
than the largest one that a client may wish for).

Cost: paid at start and at a reload, never per message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from hub.errors import InvalidTopicError, UsageError
from hub.keys import KEYS, SECTIONS, SHOWN_CHARACTERS, closest, value_at
from hub.settings.settings import Settings
from hub.settings.stores import StoresSettings
from hub.stores.naming import parse_feed, parse_served, parse_store
from hub.topics import check_prefix

__all__ = ["DEFAULT", "ConfigError", "merge", "reloaded", "told"]

DEFAULT = "default"
"""Origin of a value that no layer sets."""

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]+@")
"""What stands before the host of a URL."""


class ConfigError(UsageError):
    """A setting, or a place where settings are read from, that cannot be used.

    Attributes:
        source: Where it stands: a file's path, "environment HUB_...", "flag --...".
        key: Dotted path such as "queue.messages"; empty if the trouble is not with one key.
        reason: The cause, for people.
    """

    def __init__(self, source: str, key: str, reason: str) -> None:
        super().__init__(": ".join(part for part in (source, key, reason) if part))
        self.source = source
        self.key = key
        self.reason = reason


def merge(layers: Iterable[tuple[str, Mapping[str, object]]]) -> tuple[Settings, dict[str, str]]:
    """Lay layers of plain values over the defaults; a later layer wins, key by key. Lists are replaced, not joined.

    Args:
        layers: Pairs of the source's name and nested dictionaries as a TOML file gives them.

    Returns:
        The settings, and for each path of `KEYS` the source of its value (`DEFAULT` if no layer set it).

    Raises:
        ConfigError: An unknown key, a value of the wrong type or out of range, or two that contradict each other.
    """
    origins = dict.fromkeys(KEYS, DEFAULT)
    chosen: dict[str, dict[str, Any]] = {}
    for source, tree in layers:
        for path, value in _leaves(source, tree, ""):
            section, _, field = path.rpartition(".")
            chosen.setdefault(section, {})[field] = _converted(source, path, value)
            origins[path] = source
    settings = Settings()
    sections = {name: msgspec.structs.replace(getattr(settings, name), **chosen.get(name, {})) for name in SECTIONS}
    settings = msgspec.structs.replace(settings, **chosen.get("", {}), **sections)
    _check_queue(settings, origins)
    _check_prefixes("zeek.topics", settings.zeek.topics, origins)
    _check_prefixes("zeek.stores", settings.zeek.stores, origins)
    _check_prefixes("journal.topics", settings.journal.topics, origins)
    _check_journal(settings, origins)
    _check_stores(settings.stores.open, origins)
    _check_feeds(settings.stores, origins)
    _check_zeeks_stores(settings, origins)
    return settings, origins


def reloaded(old: Settings, new: Settings) -> tuple[Settings, list[str], list[str]]:
    """Say what a reload makes of settings.

    Returns:
        The old settings with those keys of the new ones that are live, the paths of these that have changed, and the
        paths of the others that have changed, and need a restart.
    """
    changed = [path for path in KEYS if value_at(old, path) != value_at(new, path)]
    applied = [path for path in changed if KEYS[path].live]
    chosen: dict[str, dict[str, Any]] = {}
    for path in applied:
        section, _, field = path.rpartition(".")
        chosen.setdefault(section, {})[field] = value_at(new, path)
    sections = {name: msgspec.structs.replace(getattr(old, name), **chosen[name]) for name in chosen if name}
    effective = msgspec.structs.replace(old, **chosen.get("", {}), **sections)
    return effective, applied, [path for path in changed if not KEYS[path].live]


def told(settings: Settings, origins: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each setting as it is shown to people.

    Returns:
        Maps with `setting` (its path), `value`, `unit` and `from`, in the order of the documentation. Secrets stand in
        files, of which the path is told; what a URL carries of them is left out.
    """
    return [
        {
            "setting": path,
            "value": _without_credentials(value_at(settings, path)),
            "unit": key.unit,
            "from": origins.get(path, DEFAULT),
        }
        for path, key in KEYS.items()
    ]


def _without_credentials(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_without_credentials(one) for one in value]
    return _CREDENTIALS.sub("***@", value) if isinstance(value, str) else value


def _leaves(source: str, tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Walk the known keys of one layer, complaining about the first that is not known."""
    for name, value in tree.items():
        path = prefix + name
        if path in KEYS:
            yield path, value
        elif path not in SECTIONS:
            place = f"in [{prefix[:-1]}]" if prefix else "at the top level"
            hint = closest(path, [*KEYS, *SECTIONS])
            raise ConfigError(source, _shown_path(path), f"unknown key {place}{hint}")
        elif isinstance(value, Mapping):
            yield from _leaves(source, value, path + ".")
        else:
            raise ConfigError(source, path, f"{_shown(value)} given, expected a table [{path}]")


def _converted(source: str, path: str, value: object) -> Any:
    """Check one value of one layer."""
    try:
        return KEYS[path].convert(value)
    except ValueError as error:
        raise ConfigError(source, path, f"{_shown(value)} given, {error}") from error


def _shown(value: object) -> str:
    """Repeat what somebody wrote: on one line, without control characters, and not all of a long one."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # hexadecimal digits by the thousand, dotted keys by the thousand
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _shown_path(path: str) -> str:
    """Repeat an unknown key as it stands, unless it is too odd for that."""
    return path if path.isprintable() and len(path) <= SHOWN_CHARACTERS else _shown(path)


def _check_queue(settings: Settings, origins: Mapping[str, str]) -> None:
    """See to it that the default queue is one that a client could have wished for."""
    for default, largest in (("queue.messages", "queue_max.messages"), ("queue.bytes", "queue_max.bytes")):
        if value_at(settings, default) > value_at(settings, largest):
            culprit = largest if origins[default] == DEFAULT else default
            raise ConfigError(
                origins[culprit],
                culprit,
                f"{default} = {value_at(settings, default)} ({origins[default]}) is more than"
                f" {largest} = {value_at(settings, largest)} ({origins[largest]}); lower the one or raise the other",
            )


def _check_journal(settings: Settings, origins: Mapping[str, str]) -> None:
    """See to it that a hub has a journal, or reads that of another hub, but not both; and that a tier has one."""
    if settings.journal.path and settings.journal.of:
        raise ConfigError(
            origins["journal.of"],
            "journal.of",
            f"journal.path ({origins['journal.path']}) says that this hub has a journal; leave one of the two out",
        )
    if settings.journal.tier and not settings.journal.path:
        raise ConfigError(
            origins["journal.tier"], "journal.tier", "is the tier of a journal, and there is none; set journal.path"
        )


def _check_zeeks_stores(settings: Settings, origins: Mapping[str, str]) -> None:
    """See to it that what Zeeks may clone, and what follows theirs, are stores of this hub, each by its own name."""
    stores = {parse_store(text)[0] for text in settings.stores.open}
    fed = {parse_feed(text)[0] for text in settings.stores.feeds}
    names: set[str] = set()
    served: set[str] = set()
    for path, texts in (("zeek.masters", settings.zeek.masters), ("zeek.clones", settings.zeek.clones)):
        for text in texts:
            try:
                known, name = parse_served(text)
            except UsageError as error:
                raise ConfigError(origins[path], path, str(error)) from error
            if known in names:
                raise ConfigError(origins[path], path, f"there are two stores {known!r}")
            if name not in stores:
                raise ConfigError(origins[path], path, f"{name!r} is no store of `stores.open`")
            if path == "zeek.clones" and name in served:
                raise ConfigError(origins[path], path, f"{name!r} follows one store only, and Zeeks do not clone it")
            if path == "zeek.clones" and name in fed:
                raise ConfigError(
                    origins[path], path, f"{name!r} follows a store of a Zeek, so that no messages feed it"
                )
            names.add(known)
            served.add(name)


def _check_stores(stores: tuple[str, ...], origins: Mapping[str, str]) -> None:
    """See to it that each of these texts names a store, and each name stands there once."""
    names: set[str] = set()
    for text in stores:
        try:
            name, _ = parse_store(text)
        except UsageError as error:
            raise ConfigError(origins["stores.open"], "stores.open", str(error)) from error
        if name in names:
            raise ConfigError(origins["stores.open"], "stores.open", f"there are two stores {name!r}")
        names.add(name)


def _check_feeds(settings: StoresSettings, origins: Mapping[str, str]) -> None:
    """See to it that each of these texts names a store of this hub, and a prefix."""
    stores = {parse_store(text)[0] for text in settings.open}
    for text in settings.feeds:
        try:
            name, _ = parse_feed(text)
        except (UsageError, InvalidTopicError) as error:
            raise ConfigError(origins["stores.feeds"], "stores.feeds", str(error)) from error
        if name not in stores:
            raise ConfigError(origins["stores.feeds"], "stores.feeds", f"{name!r} is no store of `stores.open`")


def _check_prefixes(path: str, prefixes: tuple[str, ...], origins: Mapping[str, str]) -> None:
    """See to it that each of these texts can be subscribed to."""
    for prefix in prefixes:
        try:
            check_prefix(prefix)
        except InvalidTopicError as error:
            raise ConfigError(origins[path], path, str(error)) from error
