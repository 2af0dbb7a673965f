"""Zeek's protocols, without I/O (docs/zeek.md).

| folder | |
|---|---|
| `broker` | Broker's own protocol: peerings, and in `stores` the data stores of endpoints |
| `zmtp` | ZeroMQ's protocol, and the events and logs of a cluster that speaks it |

Zeek's values are in `peers.values`, its JSON API in `peers.websocket.zeek_codec`, its connections in
`peers.connections`.
"""
