"""`Usage`: what one user holds of one resource; `Whole`: what the hub has of it.

```
Whole   [ alice holds ██████ | bob holds ██ | free ░░░░░░░░ ]
                                               └─ carol may hold a fair part of it
```

A user for whom a limit is set may hold that much, while there is any. For all others: with n users who hold something
of it, himself among them, a user may hold at most

    (free + what he holds) / (n + 1)

This is the rule by which dbus-broker shares out what a user has among those who send to him (`user_charge_check` in its
`src/util/user.c`, with its allocator `A(users) = users + 1`); here it shares out what the hub has. From it follows what
everybody is promised: **whatever n - 1 others do, in whatever order they come and go, a user can hold the whole divided
by n * (n + 1)**; and alone he can hold half of it, so that whoever comes next finds something.

*Proof.* Any m users hold at most m / (m + 1) of the whole W. This is so while nobody holds anything, and giving back
never breaks it. Let one of n users take something, so that he holds u then, and let s be what some m - 1 others hold.
By assumption s <= W (m - 1) / m; by the rule u <= (W - s) / (n + 1) <= (W - s) / (m + 1), since m <= n. Thus
s + u <= (m s + W) / (m + 1) <= W m / (m + 1). So n - 1 others leave W / n free at least, of which a user is granted one
part of n + 1. (Numbers are whole: the promise is rounded down.)

What users hold who have a limit of their own, and what was added without asking (`add`), is not there to be shared out:
with V of it the others are promised (W / n - V) / (n + 1).

Owner: `hub.quotas.quotas`, through the user's share. Invariants: `free` of a whole is its total less what all usages of
it hold; `sharers` is the number of those that hold something and have no limit. Cost: O(1), half a microsecond.

Not here: which limit applies (`hub.quotas.limits`), what happens at a refusal (each who asks).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.errors import CloseCode, RejectedError
from hub.quotas.resource import Resource

__all__ = ["Usage", "Whole"]


class Whole:
    """What the hub has of one resource.

    Args:
        resource: Which.
        total: How much there is.
    """

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
        """Have so much from now on. What users hold they keep."""
        self.free += total - self.total
        self.total = total


class Usage:
    """What one user holds of one resource, over all his connections.

    Args:
        whole: What he takes it from.
        user: His name.
        limit: Most that he may hold; None for a fair part.
        on_empty: Called whenever he holds nothing of it any more.
    """

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
        """How much he may hold now. It may be less than he holds, as others have come since he took it."""
        whole = self.whole
        if self.limit is not None:
            return min(self.limit, self.held + max(0, whole.free))
        return max(0, whole.free + self.held) // (whole.sharers + (1 if self.held else 2))

    @property
    def room(self) -> int:
        """How much more he may take now."""
        return max(0, self.most - self.held)

    def take(self, amount: int) -> bool:
        """Take so much more, if he may hold it; return whether he does. A refusal is counted."""
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
        """Tell whether they may hold so much more now; a refusal is counted."""
        if amount <= self.room:
            return True
        self.refuse()
        return False

    def refuse(self) -> None:
        """Count a refusal."""
        self.refused_total += 1
        self.whole.refused_total += 1

    def add(self, amount: int) -> None:
        """Take so much more, whatever he may hold: where he, or somebody else, is owed it."""
        if not amount:
            return
        whole = self.whole
        if not self.held and self.limit is None:
            whole.sharers += 1
        self.held += amount
        whole.free -= amount

    def give_back(self, amount: int) -> None:
        """Hold so much less. It was taken or added before."""
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
        """Let another limit apply from now on; what he holds he keeps."""
        if self.held:
            self.whole.sharers += (limit is None) - (self.limit is None)
        self.limit = limit

    def require(self, amount: int) -> None:
        """Take so much more.

        Raises:
            RejectedError: He may not hold it.
        """
        if not self.take(amount):
            raise self.rejection(amount)

    def check(self, amount: int) -> None:
        """See to it that he may take so much more; `add` takes it then.

        Raises:
            RejectedError: He may not hold it.
        """
        if not self.fits(amount):
            raise self.rejection(amount)

    def rejection(self, amount: int) -> RejectedError:
        """Return why so much more was refused: the resource, the limit, and who has it."""
        whole = self.whole
        if self.limit is not None and self.held + amount > self.limit:
            cause = f"the limit for this user is {self.limit}"
        else:
            cause = f"a fair part of what is left is {self.most} now, of {whole.total} in all"
        text = f"user {self.user} has {self.held} {whole.resource.text}, {amount} more are too many: {cause}"
        return RejectedError(CloseCode.TRY_AGAIN_LATER, text)
