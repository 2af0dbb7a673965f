"""What both ends of a channel go by: its rhythm, its limits, and what was lost on it.

A channel carries numbered actions from one producer to its consumers: from a master to all its clones, and from each
clone that writes to the master. Both ends live by ticks, which their owner calls; nothing here knows the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

__all__ = [
    "HEARTBEAT_TICKS",
    "NACK_NUMBERS",
    "NACK_TICKS",
    "SILENT_TICKS",
    "TICK_S",
    "ChannelCounters",
    "ChannelLimits",
    "Later",
]

TICK_S: Final = 0.1
"""How long a tick is, seconds; as `broker.store.tick-interval`."""

HEARTBEAT_TICKS: Final = 5
"""How often both ends give a sign of life, ticks; as `broker.store.heartbeat-interval`."""

NACK_TICKS: Final = 2
"""How long something may be missing before it is asked for again, ticks; as `broker.store.nack-timeout`."""

SILENT_TICKS: Final = HEARTBEAT_TICKS * 100
"""How long a consumer may say nothing before it is removed, ticks; as `broker.store.connection-timeout`: 50 s."""

NACK_NUMBERS: Final = 1_000
"""Most numbers that are asked for, or sent again, at once: what is still missing then is asked for two ticks later."""


class Later(Enum):
    """In place of an action."""

    LATER = auto()
    """Nobody can say yet what stands under its number: it is asked for again."""


class ChannelLimits(NamedTuple):
    """How much one end of a channel holds."""

    actions: int = 100_000
    """Most actions that wait for acknowledgements, or for those before them."""
    bytes: int = 64 * 1024 * 1024
    """Most bytes of these."""


@dataclass(slots=True)
class ChannelCounters:
    """What was not as it should be, since the start; channels may share one."""

    repeated: int = 0
    """Actions that were sent again."""
    recalled: int = 0
    """Actions that were sent again, and were not held any more: what the store knows of them."""
    failed: int = 0
    """Actions that were asked for again, and are not held any more."""
    silent: int = 0
    """Consumers that were removed since they said nothing for `SILENT_TICKS`."""
    slow: int = 0
    """Consumers that were removed since they lagged further behind than the buffer reaches."""
    wrong: int = 0
    """Consumers that were removed since they asked for numbers that were not ascending."""
    overrun: int = 0
    """Actions that came too early and found no room; they are asked for again."""
    lost: int = 0
    """Actions that a consumer has learned to be lost for good."""
