"""Topics of Broker's data stores, and which prefixes a hub must not ask Zeeks for because of them.

A store NAME has two topics, `NAME/<$>/data/master` and `NAME/<$>/data/clone`; topics with `<$>` are for endpoints
themselves. A Broker endpoint refuses to be a store's master while the filter of a direct peer covers the first of these
topics, since it takes the peer for another master. So when a client subscribes to everything, the hub must not ask
Zeeks for everything, or none of them could attach a store (`master_exists`).

A store may have any name. Those that Zeek itself gives are the default of `zeek.stores`; a site adds its own there.

No state, no I/O. Not here: what is said under these topics (`command`).
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["announces_master", "clone_topic", "covers_stores", "is_store_topic", "master_topic", "store_of"]

_INTERNAL = "<$>"
"""A topic with this part in it is for endpoints themselves."""

_MASTER = "/<$>/data/master"
_CLONE = "/<$>/data/clone"


def master_topic(name: str) -> str:
    """Return the topic that the master of a store reads. Broker puts exactly one slash behind the name."""
    return name.rstrip("/") + _MASTER


def clone_topic(name: str) -> str:
    """Return the topic that the clones of a store read."""
    return name.rstrip("/") + _CLONE


def is_store_topic(topic: str) -> bool:
    """Return whether a topic is that of a store's master or clones."""
    return topic.endswith((_MASTER, _CLONE))


def store_of(topic: str) -> tuple[str, bool] | None:
    """Return the name of a topic's store, and whether its master reads it; None for other topics."""
    for end in (_MASTER, _CLONE):
        if topic.endswith(end):
            return topic.removesuffix(end), end is _MASTER
    return None


def announces_master(prefixes: Iterable[str], name: str) -> bool:
    """Return whether an endpoint with this filter may be the master of a store: then nobody else is to be it."""
    topic = master_topic(name)
    return any(topic.startswith(prefix) for prefix in prefixes)


def covers_stores(prefix: str, names: Iterable[str]) -> bool:
    """Return whether a topic of a store, or another one that is for endpoints themselves, begins with `prefix`.

    Args:
        prefix: The prefix that a subscriber wants.
        names: Prefixes of the names of stores.
    """
    if _INTERNAL in prefix or _INTERNAL.startswith(prefix):  # the empty prefix is one of the latter
        return True
    return any(name.startswith(prefix) or prefix.startswith(name) for name in names)
