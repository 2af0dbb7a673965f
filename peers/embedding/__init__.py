"""A hub inside a program: `Hub` for asyncio, `BlockingHub` for threads. See docs/embedding.md."""

from peers.embedding.blocking import BlockingHub
from peers.embedding.hub import Hub

__all__ = ["BlockingHub", "Hub"]
