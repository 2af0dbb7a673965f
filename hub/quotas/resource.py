"""`Resource`: what users take of a hub."""

from __future__ import annotations

from enum import Enum


class Resource(Enum):
    """What is charged to users. The values are the keys of limits, and labels of metrics."""

    CONNECTIONS = "connections"
    PREFIXES = "prefixes"  # Pairs of handler and prefix
    RULES = "rules"
    SERVICES = "services"  # Prefixes that are served
    NAMES = "names"  # Names that are owned, waited for, or announced over a link
    PENDING_REQUESTS = "pending_requests"  # The asker pays
    # What waits for slow readers, whose user pays, with what their transports have not written; and what was read of a
    # client and not acted on, such as a large frame that is not complete
    QUEUED_BYTES = "queued_bytes"
    DESCRIPTORS = "descriptors"  # Of shared memory
    STAGED_BYTES = "staged_bytes"  # What waits for its COMMIT
    JOURNAL_READS = "journal_reads"  # FETCHes that reader processes have to answer

    __hash__ = object.__hash__  # an enumeration's own is a call of Python, and this is looked up for each prefix

    @property
    def is_size(self) -> bool:
        """Whether it is counted in bytes."""
        return self in {Resource.QUEUED_BYTES, Resource.STAGED_BYTES}

    @property
    def text(self) -> str:
        """The name behind a number in the text of a refusal."""
        return _TEXTS.get(self, self.value.replace("_", " "))


_TEXTS = {
    Resource.SERVICES: "prefixes that are served",
    Resource.QUEUED_BYTES: "bytes waiting",
    Resource.STAGED_BYTES: "bytes staged",
}
