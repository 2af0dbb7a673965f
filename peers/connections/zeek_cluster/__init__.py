"""The hub as the central broker of a Zeek cluster whose nodes speak ZeroMQ, or as one of its nodes (docs/zeek.md).

| file | |
|---|---|
| `cluster` | what all connections of one cluster share: who wants what, who is told, which other hubs have joined it |
| `far_end`, `sockets` | what all connections have in common, with NULL or CURVE; XSUB, XPUB and PUSH of a node |
| `member` | the nodes of a cluster in which the hub is one with a name |
| `returning` | nodes that come back after their connection has broken, and are told all anew |
"""
