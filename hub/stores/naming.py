"""Names of stores, their topics, and their settings."""

from __future__ import annotations

from hub.errors import UsageError
from hub.topics import STORES, check_prefix, check_topic, printable


def store_topic(name: str, what: str = "") -> str:
    """Return a topic of a store, or without `what` the prefix of all of them; raises `UsageError`."""
    if not name or "/" in name or "=" in name:
        raise UsageError(f"{printable(name)} is no name of a store: it has one character at least, and no '/' or '='")
    return check_topic(f"{STORES}{name}/{what}")


def parse_store(text: str) -> tuple[str, str]:
    """Return name and file of a setting NAME=FILE; raises UsageError."""
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise UsageError(f"{printable(text)} is no store: write NAME=FILE, or NAME=:memory:")
    store_topic(name)
    return name, path


def parse_feed(text: str) -> tuple[str, str]:
    """Return store and prefix of a setting NAME=PREFIX; raises `UsageError` or `InvalidTopicError`."""
    name, equals, prefix = text.partition("=")
    if not equals:
        raise UsageError(f"{printable(text)} feeds no store: write NAME=PREFIX")
    store_topic(name)
    if prefix.startswith(STORES):
        raise UsageError(f"{printable(text)}: topics under {STORES} feed no store")
    return name, check_prefix(prefix)


def parse_served(text: str) -> tuple[str, str]:
    """Return the outer and the local name of a store, of a setting STORE or NAME=STORE; raises UsageError."""
    known, _, name = text.rpartition("=")
    known = known or name
    store_topic(name)
    if "<$>" in known or known.startswith("/") or known.endswith("/"):
        raise UsageError(f"{printable(known)} is no name of a store at a Zeek: no '<$>', and no '/' at either end")
    return known, name
