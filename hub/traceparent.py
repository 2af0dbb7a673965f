"""`TraceParent`: the trace that a message belongs to, as its publisher says it by a label.

```
traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
            │  │                                │                └ flags; bit 0: whoever began the trace records it
            │  │                                └ the publisher's span
            │  └ the trace
            └ version
```

Behind `traceparent=` stands what W3C Trace Context calls so. A later version may say more behind that, which is passed
over; what is no traceparent at all is a label like any other. No state.

Not here: which messages are followed through the hub (`hub.spans`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["TRACEPARENT", "TraceParent", "traceparent_of"]

TRACEPARENT = "traceparent="
"""How such a label begins."""

_FORM = re.compile(
    TRACEPARENT + r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)

_SAMPLED = 1


class TraceParent(NamedTuple):
    """A place in a trace."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits: the span that what follows is a part of."""
    is_sampled: bool
    """Whether whoever began the trace records it."""


def traceparent_of(labels: Iterable[str]) -> TraceParent | None:
    """Return what the labels of a message say of its trace; None for nothing."""
    for label in labels:
        if label.startswith(TRACEPARENT):
            found = _FORM.fullmatch(label)
            if found is not None and not (found[1] == "00" and found[5]):
                return TraceParent(found[2], found[3], bool(int(found[4], 16) & _SAMPLED))
    return None
