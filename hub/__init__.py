"""The core of topichub: topics, batches, handlers with bounded queues, and the one owner of routing (`hub.core`).

It has no sockets, no event loop and no clock: bytes and times are arguments. I/O is in `peers`.
"""

from typing import NoReturn

__version__ = "1.0.0rc1"

_ELSEWHERE = {
    "Hub": "peers.embedding",
    "BlockingHub": "peers.embedding",
    "Client": "peers.client",
    "connect": "peers.client",
}
"""Name the module that has the attribute."""


def __getattr__(name: str) -> NoReturn:
    if name in _ELSEWHERE:
        raise ImportError(f"{name} is in {_ELSEWHERE[name]}: write `from {_ELSEWHERE[name]} import {name}`", name=name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
