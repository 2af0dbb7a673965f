"""A store and a copy in memory, for masters and clones of tests: dictionaries of bodies in Broker's binary format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hub.errors import HubError
from peers.values import Count, decode, encode
from peers.values.layout import Tag
from peers.zeek.broker.stores.command import Add, Clear, Erase, Expire, Put, PutUnique, Subtract
from peers.zeek.broker.stores.ledger import By
from peers.zeek.broker.stores.master import Change, Wish

__all__ = ["MemoryReplica", "MemoryStore"]

_ZEROS: dict[Tag, Any] = {Tag.COUNT: Count(0), Tag.INTEGER: 0, Tag.STRING: "", Tag.VECTOR: ()}


class MemoryStore:
    """What a master serves. It adds numbers, strings and vectors."""

    def __init__(self, owner: bytes = b"") -> None:
        self.content: dict[bytes, bytes] = {}
        self.owner = owner
        """Who publishes that something has expired."""
        self.tell: Callable[[Change], object] = lambda _: None
        """Told of each change."""

    def __len__(self) -> int:
        """As `ServedStore`."""
        return len(self.content)

    def apply(self, wish: Wish, then: Callable[[bool], object] = lambda _: None, _: By | None = None) -> None:
        """As `ServedStore`."""
        then(self._apply(wish))

    def _apply(self, wish: Wish) -> bool:
        match wish:
            case Put():
                return self._put(wish)
            case PutUnique():
                put = Put(wish.key, wish.value, wish.expiry_ns, wish.publisher)
                return wish.key not in self.content and self._put(put)
            case Erase():
                if self.content.pop(wish.key, None) is not None:
                    self.tell(wish)
            case Add():
                before = decode(self.content.get(wish.key, encode(_ZEROS[wish.initial])))
                return self._compute(wish, lambda: before + decode(wish.value))  # type: ignore[operator]
            case Subtract():
                return self._compute(wish, lambda: decode(self.content[wish.key]) - decode(wish.value))  # type: ignore[operator]
            case Clear():
                self.content.clear()
                self.tell(wish)
        return True

    def _put(self, put: Put) -> bool:
        self.content[put.key] = put.value
        self.tell(put)
        return True

    def _compute(self, wish: Add | Subtract, compute: Callable[[], Any]) -> bool:
        try:
            value = compute()
        except (TypeError, KeyError):
            return False
        if isinstance(decode(wish.value), Count):
            value = Count(value)
        return self._put(Put(wish.key, encode(value), None, wish.publisher))

    def when_kept(self, then: Callable[[HubError | None], object]) -> None:
        """As `ServedStore`: nothing is kept."""
        then(None)

    def expire(self, key: bytes) -> None:
        """A key's time is over."""
        del self.content[key]
        self.tell(Expire(key, self.owner))

    def entries(self) -> Iterable[tuple[bytes, bytes]]:
        """As `ServedStore`."""
        return self.content.items()


class MemoryReplica:
    """What a clone keeps."""

    def __init__(self) -> None:
        self.content: dict[bytes, bytes] = {}
        self.lost: list[str] = []
        self.replaced = 0

    def replace(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """As `Replica`."""
        self.content = dict(entries)
        self.replaced += 1

    def change(self, change: Change) -> None:
        """As `Replica`."""
        match change:
            case Put():
                self.content[change.key] = change.value
            case Erase() | Expire():
                self.content.pop(change.key, None)
            case Clear():
                self.content.clear()

    def lose(self, reason: str) -> None:
        """As `Replica`."""
        self.lost.append(reason)
