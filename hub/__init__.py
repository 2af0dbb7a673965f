"""The core of topichub: topics, batches, handlers with bounded queues, and the one owner of routing.

No sockets, no event loop, no clock: bytes and times are arguments. What talks to the outside is in `peers`.

```
core ──▶ routes ──▶ multimap            who gets it
  └────▶ handler ─▶ queue ─▶ batch      what it costs when somebody is slow
```
"""

__version__ = "0.1.0"
