"""`Descriptor`: one open descriptor of this process, closed with its last holder; `Account`: how many are open.

Owner: whoever holds the object: a batch in queues, a connection that was sent it, a mapping. There is no other count
than the one that Python keeps of its objects, so that nothing that ends in any way can leave a descriptor behind.

Invariants: closed exactly once; an account's `open` is the number of its descriptors that are.
"""

from __future__ import annotations

import os
import socket
from array import array

from hub.quotas.usage import Usage

__all__ = ["Account", "Descriptor"]


class Account:
    """Descriptors that somebody has brought and that are still open.

    Args:
        limit: Most of them; a caller that opens one asks `has_room` before.
        parent: A wider account, which every one of them is added to as well.
    """

    __slots__ = ("limit", "open", "parent", "refused", "usage")

    def __init__(self, limit: int, parent: Account | None = None) -> None:
        self.limit = limit
        # How many descriptors are open now: raised by `charge`, lowered when one of them is closed.
        self.open = 0
        # How many descriptors there was no room for; nothing lowers it.
        self.refused = 0
        self.parent = parent
        # What the user of a client's account has open in all; None where nobody is charged. It is set before anything
        # is open.
        self.usage: Usage | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more may be open: here, in the wider account, and of the user."""
        if self.usage is not None and not self.usage.room:
            return False
        return self.open < self.limit and (self.parent is None or self.parent.has_room)

    def refuse(self) -> None:
        """Take note that there was no room for one."""
        self.refused += 1
        if self.usage is not None and not self.usage.room:
            self.usage.refuse()
        if self.parent is not None:
            self.parent.refuse()

    def add(self, number: int) -> None:
        """Add so many to what is open, here, in the wider account, and of the user; a negative number takes away."""
        self.open += number
        if self.usage is not None:
            if number > 0:
                self.usage.add(number)
            else:
                self.usage.give_back(-number)
        if self.parent is not None:
            self.parent.add(number)


class Descriptor:
    """One descriptor, which is closed at the latest with the last reference to this object.

    Args:
        number: Of an open descriptor, which belongs to this object from now on.
    """

    __slots__ = ("_account", "_rights", "number")

    number: int
    """The descriptor; -1 once it is closed."""

    def __init__(self, number: int) -> None:
        self.number = number
        # The account that is charged for it until it is closed; None before `charge`.
        self._account: Account | None = None
        # What `sendmsg` takes; None until it is handed over for the first time.
        self._rights: list[tuple[int, int, array[int]]] | None = None

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Descriptor {self.number}>"

    def charge(self, account: Account) -> None:
        """Charge an account for it until it is closed."""
        self._account = account
        account.add(1)

    @property
    def is_charged(self) -> bool:
        """Whether an account is charged for it."""
        return self._account is not None

    def close(self) -> None:
        """Close it now, whoever has this object. This does no harm if it was closed before."""
        if self.number < 0:
            return
        os.close(self.number)
        self.number = -1
        if self._account is not None:
            self._account.add(-1)

    @property
    def rights(self) -> list[tuple[int, int, array[int]]]:
        """What `sendmsg` takes to hand the descriptor over."""
        if self._rights is None:
            self._rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [self.number]))]
        return self._rights
