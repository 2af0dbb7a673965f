"""Zeeks: their values, Broker's protocol, the JSON API for programs, and Zeek's own WebSocket server.

| room | what |
|---|---|
| `data` | values, in Broker's binary format, in JSON and in msgpack |
| `event` | Zeek events |
| `native` | Broker's peering, without I/O |
| `peering` | sockets around it |
| `api` | `/v1/messages/json` on the hub's WebSocket port |
| `bridge` | the other end of that API: dialling a Zeek |
| `tls` | both modes of TLS that Broker has |
"""

from __future__ import annotations

from peers.zeek.event import Event, NoEventError

__all__ = ["Event", "NoEventError"]
