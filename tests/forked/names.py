"""Which process has asked for a forked one: a child of the server's, of which `/proc` shows the server's command.

So it bears a name that says who has asked for it.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["asked_by", "bear_name"]

_NAME = "of "
"""How a name begins; behind it stands an id, and the kernel keeps 15 bytes in all."""


def bear_name(asker: int) -> None:
    Path("/proc/self/comm").write_text(f"{_NAME}{asker}")


def asked_by(pid: int) -> int:
    try:
        name = Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return 0
    return int(name.removeprefix(_NAME)) if name.startswith(_NAME) else 0
