"""The core of topichub: topics, batches, handlers with bounded queues, and the one owner of routing.

It has no sockets, no event loop and no clock: bytes and times are arguments. What talks to the outside is in `peers`.

```
core ─┬▶ routes ──▶ multimap, tags       who wants a message
      ├▶ delivery                        who gets it, of those
      ├▶ handler ─▶ waiting ─▶ queue     where it is written, and what happens when somebody is slow
      ├▶ requests, names                 what has one answer, and what has one owner
      └▶ turn, memory                    how much is done in a turn, and how much is held
```

`journal` is apart: the format of recordings, which the core itself does not use.
"""

__version__ = "0.1.0"
