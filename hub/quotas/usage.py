"""`Usage`: what one user holds of one resource; `Whole`: what the hub has of it.

A user with a limit may hold that much, while there is any. With n users who hold something of it, this one among them,
a user without a limit may hold at most (free + what they hold) / (n + 1). This is the rule of dbus-broker
(`user_charge_check` in `src/util/user.c`, `A(users) = users + 1`). It promises: **whatever n - 1 others do, a user can
hold the whole divided by n * (n + 1)**; and alone they can hold half of it, so that the next one finds something.

*Proof.* Any m users hold at most m / (m + 1) of the whole W: true while nothing is held, and giving back keeps it so.
Let one of n users take something, so that they hold u, and let s be what some m - 1 others hold. By assumption s <= W
(m - 1) / m; by the rule u <= (W - s) / (n + 1) <= (W - s) / (m + 1), since m <= n. Thus s + u <= (m s + W) / (m + 1) <=
W m / (m + 1). So n - 1 others leave W / n free at least. What users with a limit hold, and what was added without
asking (`add`), say V, is not shared out: the others are promised (W / n - V) / (n + 1).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.errors import CloseCode, RejectedError
from hub.quotas.resource import Resource


class Whole:
    """What the hub has of one resource."""

    __slots__ = ("free", "refused_total", "resource", "sharers", "total")

    def __init__(self, resource: Resource, total: int) -> None:
        self.resource = resource
        self.total = total
        # What nobody holds. Below 0 where more was added without asking than there was.
        self.free = total
        # How many users hold something of it and have no limit of their own.
        self.sharers = 0
        # How often somebody was refused since the start of the hub.
        self.refused_total = 0

    def set_total(self, total: int) -> None:
        """Set the total; what users hold they keep."""
        self.free += total - self.total
        self.total = total


class Usage:
    """What one user holds of one resource, over all connections."""

    __slots__ = ("_on_empty", "held", "limit", "refused_total", "user", "whole")

    def __init__(self, whole: Whole, user: str, limit: int | None, on_empty: Callable[[], object]) -> None:
        self.whole = whole
        self._on_empty = on_empty
        self.user = user
        self.held = 0
        # Changed by `set_limit` alone.
        self.limit = limit
        # How often he was refused since he has had something to do with the hub.
        self.refused_total = 0

    @property
    def most(self) -> int:
        """How much may be held now; less than is held, if others have come since."""
        whole = self.whole
        if self.limit is not None:
            return min(self.limit, self.held + max(0, whole.free))
        return max(0, whole.free + self.held) // (whole.sharers + (1 if self.held else 2))

    @property
    def room(self) -> int:
        return max(0, self.most - self.held)

    def take(self, amount: int) -> bool:
        """Take so much more, if it may be held; return whether it may. A refusal is counted."""
        whole, held = self.whole, self.held
        if held and self.limit is None:  # as `most` and `add`, with two calls less for each message that waits
            if (held + amount) * (whole.sharers + 1) <= whole.free + held:
                self.held = held + amount
                whole.free -= amount
                return True
        elif held + amount <= self.most:
            self.add(amount)
            return True
        if not amount:
            return True
        self.refuse()
        return False

    def fits(self, amount: int) -> bool:
        """Return whether so much more may be held; a refusal is counted."""
        if amount <= self.room:
            return True
        self.refuse()
        return False

    def refuse(self) -> None:
        self.refused_total += 1
        self.whole.refused_total += 1

    def add(self, amount: int) -> None:
        """Take so much more in any case, as it is owed to somebody."""
        if not amount:
            return
        whole = self.whole
        if not self.held and self.limit is None:
            whole.sharers += 1
        self.held += amount
        whole.free -= amount

    def give_back(self, amount: int) -> None:
        if not amount:
            return
        whole = self.whole
        self.held -= amount
        whole.free += amount
        if not self.held:
            if self.limit is None:
                whole.sharers -= 1
            self._on_empty()

    def set_limit(self, limit: int | None) -> None:
        """Let another limit apply from now on; what is held is kept."""
        if self.held:
            self.whole.sharers += (limit is None) - (self.limit is None)
        self.limit = limit

    def require(self, amount: int) -> None:
        """Take so much more.

        Raises:
            RejectedError: It may not be held.
        """
        if not self.take(amount):
            raise self.rejection(amount)

    def check(self, amount: int) -> None:
        """Check that so much more may be taken; `add` takes it then.

        Raises:
            RejectedError: It may not be held.
        """
        if not self.fits(amount):
            raise self.rejection(amount)

    def rejection(self, amount: int) -> RejectedError:
        """Return the error of a refusal: the resource, the limit, and the user."""
        whole = self.whole
        if self.limit is not None and self.held + amount > self.limit:
            cause = f"the limit for this user is {self.limit}"
        else:
            cause = f"a fair part of what is left is {self.most} now, of {whole.total} in all"
        text = f"user {self.user} has {self.held} {whole.resource.text}, {amount} more are too many: {cause}"
        return RejectedError(CloseCode.TRY_AGAIN_LATER, text)
