"""Named consumers of a hub: `hub.consumers` connected to the journal, the disk and clients. See docs/consumers.md.

```
clients of other hubs ─▶ RemoteConsumers, there ─ $hub/at/ID/consumers ─▶ ForHubs, here ─┐
clients ─ $hub/consumers/... ─▶ Consumers ◀───────────────────────────────────────────┘
                                    └─▶ Served, one each ─▶ hub.consumers.Consumer
journal ─ FETCH, as clients read ─▶ Reading ──┘    │    └─ dead letters ─▶ core
                                   positions.db ◀──┘ Positions, a thread
```
"""
