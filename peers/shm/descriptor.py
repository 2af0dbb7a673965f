"""`Descriptor`: one open descriptor of this process, closed when the last who has it lets go; and who pays for it.

Owner: whoever holds the object: a batch in queues, a connection that was sent it, a mapping. There is no other count
than the one that Python keeps of its objects, so that nothing that ends in any way can leave a descriptor behind.

Invariants: closed exactly once; an account's `open` is the number of its descriptors that are.
"""

from __future__ import annotations

import os
import socket
from array import array

__all__ = ["Account", "Descriptor"]


class Account:
    """Descriptors that somebody has brought and that are still open.

    Args:
        limit: Most of them; whoever opens asks `has_room` before.
        parent: Where they are counted as well.
    """

    __slots__ = ("limit", "open", "parent", "refused")

    def __init__(self, limit: int, parent: Account | None = None) -> None:
        self.limit = limit
        self.open = 0
        self.refused = 0
        self.parent = parent

    @property
    def has_room(self) -> bool:
        """Whether one more may be open."""
        return self.open < self.limit and (self.parent is None or self.parent.has_room)

    def refuse(self) -> None:
        """Count what there was no room for."""
        self.refused += 1
        if self.parent is not None:
            self.parent.refuse()

    def add(self, number: int) -> None:
        """One more, or one less."""
        self.open += number
        if self.parent is not None:
            self.parent.add(number)


class Descriptor:
    """One descriptor.

    Args:
        number: Open; it belongs to this object from now on.
    """

    __slots__ = ("_account", "_rights", "number")

    number: int
    """-1 once it is closed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._account: Account | None = None
        self._rights: list[tuple[int, int, array[int]]] | None = None

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Descriptor {self.number}>"

    def charge(self, account: Account) -> None:
        """Have it counted until it is closed."""
        self._account = account
        account.add(1)

    @property
    def is_charged(self) -> bool:
        """Whether somebody pays for it."""
        return self._account is not None

    def close(self) -> None:
        """Close it now, whoever has it. Harmless when it is closed."""
        if self.number < 0:
            return
        os.close(self.number)
        self.number = -1
        if self._account is not None:
            self._account.add(-1)

    @property
    def rights(self) -> list[tuple[int, int, array[int]]]:
        """What `sendmsg` takes to hand it over."""
        if self._rights is None:
            self._rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [self.number]))]
        return self._rights
