"""A hub inside a program: `Hub` for asyncio, `BlockingHub` for threads. See docs/embedding.md."""

from peers.embedding.hub import BlockingHub, Hub

__all__ = ["BlockingHub", "Hub"]
