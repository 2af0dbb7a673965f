"""A probe, which takes the way of a message to find out about it, and what hubs tell of it; both stand in ROUTING.

```
asking hub ── Probe ──▶ hub ── Probe ──▶ hub          behind what waits for each link, and behind ORIGIN of that hub
     ▲──── ProbeReport ──┘                 │
     └◀─────────── ProbeReport ◀───────────┘          the way back, hub by hub, ahead of what waits
```

| body | |
|---|---|
| `[5, number, topic, hops, waited_us]` | `Probe` |
| `[6, origin, number, hub, before, hops, waited_us, at_us, outcome, subscribers, links, unwanted]` | `ProbeReport` |

Owner: nobody; they are values. Invariant: what is taken has ids of 16 bytes, numbers in their ranges, and a size that
is bounded. Not here: what follows from them (`peers.node.probes`), topics (`peers.wire.routing` checks them).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from hub.frame import HEADER_BYTES, encode_frame
from hub.topics import TOPIC_LIMIT_BYTES
from peers.wire.hello import HubId
from peers.wire.kinds import Kind

__all__ = ["HOPS_LIMIT", "LINKS_LIMIT", "PROBE_BYTES", "Probe", "ProbeReport", "encode_probe"]

HOPS_LIMIT = 64
"""Most links that a probe crosses: no mesh that people make is as long."""

LINKS_LIMIT = 256
"""Most links that a hub tells of in one report, which then has 9 KB at most."""

PROBE_BYTES = HEADER_BYTES + 32 + TOPIC_LIMIT_BYTES
"""The most that a probe takes as a frame."""

_NUMBER_LIMIT = 2**32 - 1
_LATEST_US = 2**53
_Number = Annotated[int, msgspec.Meta(ge=0, le=_NUMBER_LIMIT)]
_Hops = Annotated[int, msgspec.Meta(ge=1, le=HOPS_LIMIT)]
_Us = Annotated[int, msgspec.Meta(ge=0, le=_LATEST_US)]
_Word = Annotated[str, msgspec.Meta(max_length=16)]


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=5, forbid_unknown_fields=True):
    """A probe, on its way over one link. Where it has entered the mesh says the ORIGIN in front of it."""

    number: _Number
    """Which one of that hub."""
    topic: str
    """Whose way it takes."""
    hops: _Hops
    """How many links it has crossed with this one."""
    waited_us: _Us
    """How long it was in the hub that speaks, from the read that brought it to the write, µs."""


class ProbeReport(msgspec.Struct, frozen=True, array_like=True, tag=6, forbid_unknown_fields=True):
    """What a hub tells of a probe that has come there."""

    origin: HubId
    """The hub that asks."""
    number: _Number
    """The probe."""
    hub: HubId
    """The hub that tells."""
    before: HubId
    """The hub from which the probe has come there."""
    hops: _Hops
    """How many links it has crossed."""
    waited_us: _Us
    """How long it was in the hub before, by the clock of that one, µs."""
    at_us: _Us
    """When it has come, by this hub's clock, µs since 1970."""
    outcome: _Word
    """`taken`, or why not: `hub.prospect.Outcome`, or `busy`. Another version may say something else."""
    subscribers: _Number
    """How many here a message would go to, peer hubs left out."""
    links: Annotated[tuple[tuple[HubId, _Word], ...], msgspec.Meta(max_length=LINKS_LIMIT)]
    """The hubs to which a message would go on, and what has become of the probe there: `sent`, or why not: `policy`,
    `earlier`, `full`, `too far`."""
    unwanted: _Number
    """How many further links of this hub there are: behind them nobody wants it, by this way."""


_encode = msgspec.msgpack.Encoder().encode


def encode_probe(item: Probe | ProbeReport) -> bytes:
    """Return the frame."""
    return encode_frame(Kind.ROUTING, _encode(item))
