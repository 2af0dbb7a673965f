"""What a store may be called, where its topics are, and how a setting names it. No state."""

from __future__ import annotations

from hub.errors import UsageError
from hub.topics import STORES, check_prefix, check_topic, printable


def store_topic(name: str, what: str = "") -> str:
    """Return a topic of a store, or with nothing behind the name the prefix of all.

    Raises:
        UsageError: That is no name: empty, with a slash or control characters, or too long.
    """
    if not name or "/" in name or "=" in name:
        raise UsageError(f"{printable(name)} is no name of a store: it has one character at least, and no '/' or '='")
    return check_topic(f"{STORES}{name}/{what}")


def parse_store(text: str) -> tuple[str, str]:
    """Return name and file of a setting, NAME=FILE.

    Raises:
        UsageError: It is no such setting.
    """
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise UsageError(f"{printable(text)} is no store: write NAME=FILE, or NAME=:memory:")
    store_topic(name)
    return name, path


def parse_feed(text: str) -> tuple[str, str]:
    """Return, of a setting NAME=PREFIX, the name of a store and the prefix that feeds it.

    Raises:
        UsageError: It is no such setting, or the prefix is one of topics of stores, which would feed themselves.
        InvalidTopicError: That is no prefix.
    """
    name, equals, prefix = text.partition("=")
    if not equals:
        raise UsageError(f"{printable(text)} feeds no store: write NAME=PREFIX")
    store_topic(name)
    if prefix.startswith(STORES):
        raise UsageError(f"{printable(text)}: topics under {STORES} feed no store")
    return name, check_prefix(prefix)


def parse_served(text: str) -> tuple[str, str]:
    """Return, of a setting STORE or NAME=STORE, the name that others know a store by, and its own.

    Raises:
        UsageError: It is no such setting.
    """
    known, _, name = text.rpartition("=")
    known = known or name
    store_topic(name)
    if "<$>" in known or known.startswith("/") or known.endswith("/"):
        raise UsageError(f"{printable(known)} is no name of a store at a Zeek: no '<$>', and no '/' at either end")
    return known, name
