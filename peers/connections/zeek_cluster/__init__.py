"""The hub as the central broker of a Zeek cluster whose nodes speak ZeroMQ (docs/zeek.md).

| file | |
|---|---|
| `cluster` | what all connections of one cluster share: who wants what, and who is told |
| `subscriber` | the XSUB of a node, on the broker's first port: what it wants, and the events it gets |
| `logger` | the PUSH of a node, on a port of its own: its logs |
| `publisher` | the XPUB of a node, on the second port: what it publishes, and what it is told is wanted |
"""
