"""The hub as the central broker of a Zeek cluster whose nodes speak ZeroMQ, or as one of its nodes (docs/zeek.md).

| file | |
|---|---|
| `cluster` | what all connections of one cluster share: who wants what, and who is told |
| `subscriber` | the XSUB of a node, on the broker's first port: what it wants, and the events it gets |
| `member` | the nodes of a cluster in which the hub is one with a name |
| `fellows` | which other hubs have joined a cluster, and which of them has it |
| `logger` | the PUSH of a node, on a port of its own: its logs |
| `publisher` | the XPUB of a node, on the second port: what it publishes, and what it is told is wanted |
| `returning` | nodes that come back after their connection has broken, and are told all anew |
| `mechanisms` | whether all that is encrypted: NULL or CURVE |

Of a cluster that has another central broker, `subscriber` and `publisher` are the sockets of that one, which
`peers.connections.cluster_dialler` dials.
"""
