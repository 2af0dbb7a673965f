"""`Resource`: what the hub has of, and users take. Values; no state."""

from __future__ import annotations

from enum import Enum

__all__ = ["Resource"]


class Resource(Enum):
    """What is charged to users. The values are the keys of limits, and labels of metrics."""

    CONNECTIONS = "connections"
    PREFIXES = "prefixes"
    """Subscriptions by prefix: pairs of handler and prefix, as all that follows counts for each handler by itself."""
    RULES = "rules"
    SERVICES = "services"
    """Prefixes that are served."""
    NAMES = "names"
    """Names that are owned, waited for, or announced over a link."""
    PENDING_REQUESTS = "pending_requests"
    """Requests without an answer; whoever has asked pays."""
    QUEUED_BYTES = "queued_bytes"
    """What waits: messages, requests and replies for slow ones, whose user pays, with what their transports have not
    written; and what was read of a client and not acted on, such as a large frame that is not complete."""
    DESCRIPTORS = "descriptors"
    """Of shared memory; whoever has brought them pays."""
    STAGED_BYTES = "staged_bytes"
    """What waits for its COMMIT; whoever has staged it pays."""
    JOURNAL_READS = "journal_reads"
    """FETCHes that reader processes have to answer; whoever has asked pays."""

    __hash__ = object.__hash__  # an enumeration's own is a call of Python, and this is looked up for each prefix

    @property
    def is_size(self) -> bool:
        """Whether it is counted in bytes."""
        return self in {Resource.QUEUED_BYTES, Resource.STAGED_BYTES}

    @property
    def text(self) -> str:
        """What it is called in the text of a refusal, behind a number."""
        return _TEXTS.get(self, self.value.replace("_", " "))


_TEXTS = {
    Resource.SERVICES: "prefixes that are served",
    Resource.QUEUED_BYTES: "bytes waiting",
    Resource.STAGED_BYTES: "bytes staged",
}
