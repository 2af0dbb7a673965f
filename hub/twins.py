"""The compiled twins of the hot loops, and which of them this installation lacks.

A twin is a `.pyx` beside the pure module that does the same. It is built where there is a compiler; without it only
speed differs. `python -m hub.twins` prints a line and ends with exit code 1 if one is missing.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

# A test compares this with the sources
TWINS = (
    "hub.messages._runs",
    "hub.journal._packing",
    "hub.requests._block",
    "peers.client._plain",
    "peers.zeek.zmtp._zmtp",
)


def missing() -> tuple[str, ...]:
    return tuple(name for name in TWINS if find_spec(name) is None)


def remark() -> str:
    """Return one line that names missing twins and the remedy, empty if none is missing."""
    names = missing()
    if not names:
        return ""
    return (
        f"not compiled: {', '.join(names)}; pure Python serves, slower. With a C compiler and Python's headers "
        "(Debian: gcc libc6-dev python3-dev), install again"
    )


if __name__ == "__main__":
    text = remark()
    if text:
        print(f"topichub: {text}", file=sys.stderr)  # noqa: T201 -- this is a program here
    sys.exit(bool(text))
