"""Topics of Broker's data stores, and which prefixes a hub must not ask Zeeks for because of them.

A store NAME has two topics, `NAME/<$>/data/master` and `NAME/<$>/data/clone`; topics with `<$>` are for endpoints
themselves. A Broker endpoint refuses to be a store's master while the filter of a direct peer covers the first of these
topics, since it takes the peer for another master. So when a client subscribes to everything, the hub must not ask
Zeeks for everything, or none of them could attach a store (`master_exists`).

A store may have any name. Those that Zeek itself gives are the default of `zeek.stores`; a site adds its own there.

No state, no I/O. Not here: the stores themselves, whose commands a hub counts and drops (`peers.broker.session`).
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["covers_stores"]

_INTERNAL = "<$>"
"""A topic with this part in it is for endpoints themselves."""


def covers_stores(prefix: str, names: Iterable[str]) -> bool:
    """Return whether a topic of a store, or another one that is for endpoints themselves, begins with `prefix`.

    Args:
        prefix: The prefix that a subscriber wants.
        names: Prefixes of the names of stores.
    """
    if _INTERNAL in prefix or _INTERNAL.startswith(prefix):  # the empty prefix is one of the latter
        return True
    return any(name.startswith(prefix) or prefix.startswith(name) for name in names)
