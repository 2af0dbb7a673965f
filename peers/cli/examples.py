"""Examples in the help of commands."""

from __future__ import annotations

__all__ = ["examples"]


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines that a shell takes as they are."""
    return "  \n".join(["Examples:", *(f"`{line}`" for line in lines)])
