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

from typing import NoReturn

__version__ = "0.1.0"

_ELSEWHERE = {
    "Hub": "peers.embedding",
    "BlockingHub": "peers.embedding",
    "Client": "peers.client",
    "connect": "peers.client",
}
"""Where to import from what is looked for here."""


def __getattr__(name: str) -> NoReturn:
    """Say where a name is that is looked for here, as by `from hub import Hub`."""
    if name in _ELSEWHERE:
        raise ImportError(f"{name} is in {_ELSEWHERE[name]}: write `from {_ELSEWHERE[name]} import {name}`", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
