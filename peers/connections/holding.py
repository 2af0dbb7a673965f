"""`Holding`: what one connection holds of bytes that are neither messages nor answers, charged to the hub's memory.

```
read  ─▶ not acted on     ─▶ begun_bytes     ┐
write ─▶ transport        ─▶ unwritten_bytes ┴─▶ account "connections", and the user, once he is known
```

A frame may be 16 MiB, and until its last byte has come it stands in no queue; nor does a read that waits for its turn.
What was handed to a transport stands in none any more. Each alone is little; those of some hundred connections may be
more than the hub has.

Owner: one connection, which tells it of large holdings only (`free_bytes`) and says when they are gone. Invariant: the
account holds the sum of both over all connections. Cost: an addition when a holding changes, nothing while it is small.

Not here: what is done about a frame that grows while there is no memory, or more than its user may hold: it ends its
connection (`peers.connections.connection`).
"""

from __future__ import annotations

from hub.memory import Account, Memory
from hub.quotas.quotas import FREE_BYTES
from hub.quotas.usage import Usage


class Holding:
    """What one connection holds.

    Args:
        account: Where it is charged.
    """

    __slots__ = ("_account", "_acted_bytes", "_usage", "begun_bytes", "free_bytes", "refusal", "unwritten_bytes")

    def __init__(self, account: Account) -> None:
        self._account = account
        # What waits for all connections of the user, and of them; None where nobody is charged.
        self._usage: Usage | None = None
        self.free_bytes = FREE_BYTES
        """What is held without being charged, in each direction; less where its user has very many connections."""
        self.refusal = ""
        """Why `begun_bytes` should not have grown to what it is, as its user holds too much; empty if it may."""
        self.begun_bytes = 0
        """What is charged for what was read and not acted on; 0 while that is little."""
        self._acted_bytes = 0
        """`begun_bytes` when all that was read had last been acted on: what is incomplete had not grown beyond that."""
        self.unwritten_bytes = 0
        """What is charged for the transport; 0 while it holds no more than its high-water mark."""

    def grow(self, size_bytes: int, memory: Memory, *, waits: bool = False) -> str:
        """So much was read and not acted on, maybe more than before.

        Args:
            size_bytes: What is held.
            memory: The hub's.
            waits: Whether it waits for its turn, so that it is one read at most and may be whole messages: then it is
                refused only where the hub itself has no memory.

        Returns:
            Why it should not have grown; empty if it may, or has not.
        """
        if self.begin(max(size_bytes, self.begun_bytes) if waits else size_bytes):
            if memory.is_due or memory.is_over:  # a connection that was ended just now may have left room enough
                memory.look()
            if memory.is_over:
                return memory.refusal()
        if waits:
            return ""
        has_grown, self._acted_bytes = self.begun_bytes > self._acted_bytes, self.begun_bytes
        if not has_grown or (self._usage is not None and self._usage.room):
            self.refusal = ""
        return self.refusal

    def begin(self, size_bytes: int) -> bool:
        """So much was read and not acted on.

        Returns:
            Whether more is charged for it than before.
        """
        charged = size_bytes if size_bytes > self.free_bytes else 0
        more = charged - self.begun_bytes
        if more:
            self.begun_bytes = charged
            self._account.charge(more)
            if self._usage is not None:
                self._charge(self._usage, more)
        return more > 0

    def _charge(self, usage: Usage, more: int) -> None:
        """Charge the user for what has come of a frame: it is held, whether he may hold it or not."""
        if more < 0:
            usage.give_back(-more)
        elif not usage.take(more):
            self.refusal = usage.rejection(more).text
            usage.add(more)

    def leave_unwritten(self, size_bytes: int) -> None:
        """So much waits in the transport now."""
        charged = size_bytes if size_bytes > self.free_bytes else 0
        if charged != self.unwritten_bytes:
            more = charged - self.unwritten_bytes
            self._account.charge(more)
            self.unwritten_bytes = charged
            if self._usage is not None:
                if more > 0:
                    self._usage.add(more)
                else:
                    self._usage.give_back(-more)

    def charge(self, usage: Usage, free_bytes: int) -> None:
        """The user is known: charge them, too, for what is held now and later, but for so much in each direction."""
        self._usage = usage
        self.free_bytes = free_bytes
        usage.add(self.begun_bytes + self.unwritten_bytes)

    def give_back(self) -> None:
        """The connection is over."""
        self.begin(0)
        self.leave_unwritten(0)
        self._usage = None
