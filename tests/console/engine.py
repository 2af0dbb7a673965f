"""What runs JavaScript for a test: Node, or a page of Chromium. Both evaluate text and give back plain values."""

from __future__ import annotations

from typing import Any, Protocol


class JavaScriptError(Exception):
    """The evaluated text threw; the text of the error is that of JavaScript's."""


class Engine(Protocol):
    """Evaluates JavaScript; what the text leaves in `globalThis` is there for the next."""

    async def evaluate(self, body: str, **arguments: Any) -> Any:
        """Run `body` as the body of an async function whose parameters are `arguments`."""
