"""`Item`: a message that a consumer has read and that is not done with.

```
          take                    ack
READY ──────────▶ OUT, of a member ───▶ done, and forgotten
  ▲                 │ not acknowledged in time, or its member is gone
  └─────────────────┤ or refused (nak)
                    └─ has failed too often ─▶ DEAD ── buried ─▶ done
```

Owner: one `Consumer`, and its key while it is READY or OUT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hub.journal.block import Record

if TYPE_CHECKING:
    from hub.consumers.key import Key
    from hub.consumers.member import Member

__all__ = ["ITEM_BYTES", "Item"]

ITEM_BYTES = 500
"""Charged for an item beside its topic and body: the objects for it."""


class Item:
    """One message.

    Args:
        record: The message, as it was recorded.
        key: The key that it is one of.
        failures: How often it has failed before.
    """

    __slots__ = ("deliveries", "due_s", "failures", "key", "member", "record", "size_bytes")

    def __init__(self, record: Record, key: Key, failures: int) -> None:
        self.record = record
        self.key = key
        self.size_bytes = ITEM_BYTES + len(record.topic) + len(record.body)
        # How often it was delivered, as far as that is known: of before the hub has started, only what has failed.
        self.deliveries = failures
        # How often it was the first message of its key that came back without an acknowledgement.
        self.failures = failures
        # Who has it; None unless it is OUT.
        self.member: Member | None = None
        # When it is delivered again, if it is OUT; when at the earliest, if its key is delayed for it; else 0.
        self.due_s = 0.0
