"""`target`: what a program says of where a message goes, checked, as publications keep it.

Without labels and names that is the topic itself, so that publishing to topics costs nothing more. With them it is an
envelope, remembered, so that publishing with the same ones again does not check them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from hub.tags.envelope import Envelope, tagged

__all__ = ["Target", "target"]

Target = str | Envelope
"""A topic that is not checked yet, or an envelope that is."""

_ENVELOPES_LIMIT = 4_096
"""Most envelopes remembered by all publishers of a process, about 2 KiB each."""

_envelope = lru_cache(_ENVELOPES_LIMIT)(tagged)


def target(topic: str, labels: Iterable[str], sender: str, to: str) -> Target:
    """Return where a message goes.

    Raises:
        InvalidTopicError: No client may publish to this topic.
        InvalidNameError: A label or a name is none.
    """
    if not (labels or sender or to):
        return topic
    return _envelope(topic, tuple(labels), sender, to)
