"""`Charges`: what users have on its way to a master at a Zeek, so that none of them has more there than he may have.

A store of the hub charges an entry to the user who has written it last (`hub.stores.store`). Where the store follows
one at a Zeek, the entry is there only once the master has told it, and then it must be held, whatever the user may
have: or the copy were none. So what he asks for is refused before it is sent, by what he has and what is on its way.

Owner: `Writes` of one store. Invariant: what was added is taken away once, when the command is answered. Cost: 1 µs a
command of a user, none where there are no users. No I/O.
"""

from __future__ import annotations

from hub.stores.store import Store

__all__ = ["Charges"]


class _Growth:
    """What a user has asked for of one entry."""

    __slots__ = ("commands", "entries", "size_bytes")

    def __init__(self) -> None:
        self.commands = 0
        self.entries = 0
        """1 where the entry is not his yet."""
        self.size_bytes = 0
        """By how much more he is charged, at most."""


class _OnTheWay:
    """What one user has on its way, by key, and in all."""

    __slots__ = ("entries", "keys", "size_bytes")

    def __init__(self) -> None:
        self.keys: dict[bytes, _Growth] = {}
        self.entries = self.size_bytes = 0


class Charges:
    """Of one store.

    Args:
        store: The copy, to be looked at.
    """

    __slots__ = ("_store", "_users")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._users: dict[str, _OnTheWay] = {}

    def __len__(self) -> int:
        """Return how many users have something on its way."""
        return len(self._users)

    def add(self, user: str, key: bytes, size_bytes: int) -> None:
        """A user asks for an entry of this size, with the key.

        Raises:
            StoreError: He would have too much; nothing has changed.
        """
        on_the_way = self._users.get(user) or _OnTheWay()
        growth = on_the_way.keys.get(key) or _Growth()
        entries = on_the_way.entries - growth.entries
        others_bytes = on_the_way.size_bytes - growth.size_bytes
        more = self._store.check_user(user, key, size_bytes, entries, others_bytes)
        growth.commands += 1
        growth.entries = max(growth.entries, more[0])
        growth.size_bytes = max(growth.size_bytes, more[1])
        on_the_way.entries, on_the_way.size_bytes = entries + growth.entries, others_bytes + growth.size_bytes
        on_the_way.keys[key] = growth
        self._users[user] = on_the_way

    def remove(self, user: str, key: bytes) -> None:
        """It is answered."""
        on_the_way = self._users[user]
        growth = on_the_way.keys[key]
        growth.commands -= 1
        if not growth.commands:
            del on_the_way.keys[key]
            on_the_way.entries -= growth.entries
            on_the_way.size_bytes -= growth.size_bytes
            if not on_the_way.keys:
                del self._users[user]
