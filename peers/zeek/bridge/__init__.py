"""The bridge to a Zeek: this hub as a client of its WebSocket API."""

from peers.zeek.bridge.bridge import ZeekBridge

__all__ = ["ZeekBridge"]
