"""`Memory`: one budget for the memory of the process.

```
queues, subscriptions, routes, names, requests, stages, connections ─ charge ─▶ Account ─▶ charged_bytes > ceiling ─┐
                                                                                                                    ▼
 is_over: new state is rejected with 1013 ◀── nothing left to drop ◀── relieve: the largest queues ◀── look: resident
```

Accounts do not know the memory of the process: a prefix costs more than its text, freed memory stays with malloc for a
while. So accounts only say *when to look*, the more often the less room there is; the resident memory decides.
Memory freed by relief does not count until it is used again, as malloc keeps it at first. The core looks at the
end of a read or turn once that is due, and a clock once a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.messages.batch import Batch
from hub.scheduling.scheduler import Scheduler

NO_LIMIT_BYTES = 1 << 62  # The budget of tests, and of programs with a core of their own

# Close to the limit there is a look whenever another one of so many parts of it was charged: 2.5 MiB of 160
_LOOKS_AT_THE_LIMIT = 64

# Relief frees one of so many parts of the budget beyond the need, so that it is not due again at once
_RELIEF_PARTS = 16

# Staged data takes at most one of so many parts of the budget, so that there is room for all else
STAGED_PARTS = 4

_LET_GO_PER_STEP = 20  # How many batches are freed in one step of a turn, about 0.5 µs each

_PLACE_BYTES = 8  # Memory of a batch in each further queue: a place


class MemoryStatistics(NamedTuple):
    """Memory at one moment. Totals count from the start of the hub."""

    limit_bytes: int
    resident_bytes: int  # At the last look
    charged_bytes: dict[str, int]  # By account
    is_over: bool
    reliefs_total: int  # How often something was dropped because there was no memory
    relieved_bytes_total: int
    # Connections, subscriptions, stages, claims and large frames that were rejected for want of memory
    refused_total: int


def _nothing_resident() -> int:
    return 0


def _nothing_to_drop(_: int) -> int:
    return 0


class Memory:
    """The budget."""

    def __init__(self, limit_bytes: int = NO_LIMIT_BYTES, resident: Callable[[], int] = _nothing_resident) -> None:
        self.limit_bytes = limit_bytes
        self._resident = resident
        # The core's functions, from `attach` on.
        self._relieve: Callable[[int], int] = _nothing_to_drop
        self._on_due: Callable[[], object] = _nothing_resident
        # Name → account, from the first `account` of that name on.
        self.accounts: dict[str, Account] = {}
        # The sum of all accounts; each of them adds its charges.
        self.charged_bytes = 0
        # With more than this charged, a look is due. Set anew by each look, according to the room that it found.
        self.ceiling_bytes = limit_bytes // _LOOKS_AT_THE_LIMIT
        # Set as soon as more than the ceiling is charged; cleared by the next look.
        self.is_due = False
        # Set by a look that finds too much resident and nothing to drop; cleared by the next one that finds room.
        self.is_over = False
        # Charges before the last relief: until as much is charged again, malloc has room. Forgotten once freed
        # memory was given back to the kernel.
        self._level_bytes = 0
        # How much was resident at the last look.
        self._resident_bytes = 0
        # Totals from the start of the hub; nothing takes away from them.
        self._reliefs_total = self._relieved_bytes_total = self._refused_total = 0

    def attach(self, relieve: Callable[[int], int], on_due: Callable[[], object]) -> None:
        """Belong to a core from now on.

        Args:
            relieve: Frees so many bytes, if it can, and returns how many were freed.
            on_due: Called when a look becomes due, so that a turn comes that does it.
        """
        self._relieve = relieve
        self._on_due = on_due

    def count_only_charged(self, beside_bytes: int = 0) -> None:
        """Compare charges, and so much beside them, with the budget, not the resident memory.

        So it is in a program that holds much of its own, and where resident memory is unknown.
        """
        self._resident = lambda: beside_bytes + self.charged_bytes

    def account(self, name: str) -> Account:
        return self.accounts.setdefault(name, Account(self))

    def notice(self) -> None:
        if not self.is_due:
            self.is_due = True
            self._on_due()

    def look(self) -> None:
        """Look at the resident memory. If it is too much, the core drops something; the rest decides `is_over`."""
        self.is_due = False
        excess = self._excess()
        if excess > 0:
            charged = self.charged_bytes
            freed = self._relieve(excess + self.limit_bytes // _RELIEF_PARTS)
            if freed:
                self._reliefs_total += 1
                self._relieved_bytes_total += freed
                self._level_bytes = max(self._level_bytes, charged)
            excess -= freed
        self.is_over = excess > 0
        step = max(-excess // 2, self.limit_bytes // _LOOKS_AT_THE_LIMIT)
        self.ceiling_bytes = self.charged_bytes + step

    def gave_back(self) -> None:
        """Note that freed memory has gone back to the kernel: all resident memory is in use again."""
        self._level_bytes = 0

    def _excess(self) -> int:
        """Return how many bytes too many are taken; a number below 0 is room."""
        self._resident_bytes = self._resident()
        reusable = max(0, self._level_bytes - self.charged_bytes)
        return self._resident_bytes - reusable - self.limit_bytes

    def rejection(self) -> RejectedError:
        """Count a refusal, and return the error to raise where something new is not taken as memory is over."""
        return RejectedError(CloseCode.TRY_AGAIN_LATER, self.refusal())

    def refusal(self) -> str:
        self._refused_total += 1
        return f"this hub has no memory left for more: {self.limit_bytes} bytes are its limit"

    def statistics(self) -> MemoryStatistics:
        """Return how much was resident at the last look, and the charges now."""
        return MemoryStatistics(
            limit_bytes=self.limit_bytes,
            resident_bytes=self._resident_bytes,
            charged_bytes={name: account.size_bytes for name, account in self.accounts.items()},
            is_over=self.is_over,
            reliefs_total=self._reliefs_total,
            relieved_bytes_total=self._relieved_bytes_total,
            refused_total=self._refused_total,
        )


class Account:
    """The memory charged to one part of the hub."""

    __slots__ = ("_memory", "size_bytes")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.size_bytes = 0

    def charge(self, size_bytes: int) -> None:
        """Hold so much more, or less if it is negative."""
        self.size_bytes += size_bytes
        memory = self._memory
        memory.charged_bytes += size_bytes
        if memory.charged_bytes > memory.ceiling_bytes:
            memory.notice()

    def update(self, size_bytes: int) -> None:
        self.charge(size_bytes - self.size_bytes)


class HeldBatches:
    """Batches that wait in queues. One that waits in the queues of many handlers is charged once."""

    def __init__(self, account: Account) -> None:
        self._account = account
        # The items of queues that are gone, until they are freed: a queue may be long, and many may go at once.
        self._abandoned: deque[deque[Batch | int]] = deque()
        # Frees them in steps. Set by the core; without it they are freed at once.
        self.scheduler: Scheduler | None = None
        # In how many queues each batch waits; it stands here exactly while it waits in one.
        self._holders: dict[Batch, int] = {}

    def hold(self, batch: Batch) -> None:
        """Note that a batch waits in one more queue."""
        holders = self._holders.get(batch, 0)
        self._holders[batch] = holders + 1
        self._account.charge(_PLACE_BYTES if holders else batch.size_bytes)

    def let_go(self, batch: Batch) -> None:
        """Note that a batch waits in one queue less."""
        holders = self._holders[batch] - 1
        if holders:
            self._holders[batch] = holders
            self._account.charge(-_PLACE_BYTES)
        else:
            del self._holders[batch]
            self._account.charge(-batch.size_bytes)

    def exchange(self, gone: Batch, batch: Batch) -> None:
        """Note that a batch waits in the place of another one: as `let_go` and `hold`, in less time."""
        holders = self._holders
        left = holders.pop(gone) - 1
        if left:
            holders[gone] = left
        before = holders.get(batch, 0)
        holders[batch] = before + 1
        freed_bytes = _PLACE_BYTES if left else gone.size_bytes
        taken_bytes = _PLACE_BYTES if before else batch.size_bytes
        if taken_bytes != freed_bytes:
            self._account.charge(taken_bytes - freed_bytes)

    def abandon(self, items: deque[Batch | int]) -> None:
        """Take over the held batches, and gaps, of a queue that is gone, to free them in later turns."""
        self._abandoned.append(items)
        if self.scheduler is None:
            self.let_go_abandoned()
        else:
            self.scheduler.add(HeldBatches, self._letting_go())

    def let_go_abandoned(self) -> None:
        for _ in self._letting_go():
            pass

    def _letting_go(self) -> Iterator[None]:
        abandoned = self._abandoned
        while abandoned:
            items = abandoned[0]
            for _ in range(min(len(items), _LET_GO_PER_STEP)):
                item = items.popleft()
                if not isinstance(item, int):
                    self.let_go(item)
            if not items:
                abandoned.popleft()
            yield
