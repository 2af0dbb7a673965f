"""Named consumers at the hub: what `hub.consumers` decides, with the journal, the disk and the clients around it.

```
clients of other hubs ─▶ RemoteConsumers, there ─ $hub/at/ID/consumers ─▶ ForHubs, here ─┐
clients ─ $hub/consumers/... ─▶ Consumers ◀───────────────────────────────────────────┘
                                    └─▶ Served, one each ─▶ hub.consumers.Consumer
journal ─ FETCH, as clients read ─▶ Reading ──┘    │    └─ dead letters ─▶ core
                                   positions.db ◀──┘ Positions, a thread
```

See docs/consumers.md.
"""
