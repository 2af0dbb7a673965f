"""Merge layers of settings (file, environment, flags) into checked `Settings`, and apply a reload.

`peers.daemon.sources` reads the layers. A `Settings` made by `merge` is within every range and free of contradictions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from hub.errors import InvalidTopicError, UsageError
from hub.settings.keys import KEYS, SECTIONS, SHOWN_CHARACTERS, closest, value_at
from hub.settings.sections import StoresSettings
from hub.settings.settings import Settings
from hub.stores.naming import parse_feed, parse_served, parse_store
from hub.topics import check_prefix

DEFAULT = "default"
"""Origin of a value that no layer sets."""

_CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]+@")


class ConfigError(UsageError):
    """An invalid setting, or a source of settings that cannot be read.

    Attributes:
        source: A file's path, "environment HUB_...", "flag --...".
        key: Dotted path such as "queue.messages"; empty if no single key is at fault.
        reason: The cause, for people.
    """

    def __init__(self, source: str, key: str, reason: str) -> None:
        super().__init__(": ".join(part for part in (source, key, reason) if part))
        self.source = source
        self.key = key
        self.reason = reason


def merge(layers: Iterable[tuple[str, Mapping[str, object]]]) -> tuple[Settings, dict[str, str]]:
    """Apply layers of plain values to the defaults; a later layer wins, key by key. Lists are replaced, not joined.

    Args:
        layers: Pairs of a source's name and nested dictionaries as a TOML file gives them.

    Returns:
        The settings, and for each path of `KEYS` the source of its value (`DEFAULT` if no layer set it).

    Raises:
        ConfigError: A key is unknown, a value is of the wrong type or out of range, or two values contradict.
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
    """Apply the live keys of `new` to `old`.

    Returns:
        The settings in force, the paths that changed, and the paths that need a restart to change.
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
    """Return maps with `setting` (a path), `value`, `unit` and `from`, for people.

    Credentials in URLs are masked; other secrets are in files, of which only the path is a setting.
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
    """Yield paths and values of one layer; the first unknown key is an error."""
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
    try:
        return KEYS[path].convert(value)
    except ValueError as error:
        raise ConfigError(source, path, f"{_shown(value)} given, {error}") from error


def _shown(value: object) -> str:
    """Show a value on one line, without control characters, shortened."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # hexadecimal digits by the thousand, dotted keys by the thousand
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def _shown_path(path: str) -> str:
    return path if path.isprintable() and len(path) <= SHOWN_CHARACTERS else _shown(path)


def _check_queue(settings: Settings, origins: Mapping[str, str]) -> None:
    """The default queue may not be larger than the largest queue a client may ask for."""
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
    """Stores that Zeeks clone, and stores that follow a Zeek's store, are stores of this hub with unique names."""
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
    stores = {parse_store(text)[0] for text in settings.open}
    for text in settings.feeds:
        try:
            name, _ = parse_feed(text)
        except (UsageError, InvalidTopicError) as error:
            raise ConfigError(origins["stores.feeds"], "stores.feeds", str(error)) from error
        if name not in stores:
            raise ConfigError(origins["stores.feeds"], "stores.feeds", f"{name!r} is no store of `stores.open`")


def _check_prefixes(path: str, prefixes: tuple[str, ...], origins: Mapping[str, str]) -> None:
    for prefix in prefixes:
        try:
            check_prefix(prefix)
        except InvalidTopicError as error:
            raise ConfigError(origins[path], path, str(error)) from error
