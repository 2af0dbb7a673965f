"""Stores, without I/O: named sets of entries, which one master keeps and any number of replicas copy.

| file | |
|---|---|
| `command` | what a store is asked to do and what it has done; its limits; what must be known of types |
| `store` | the entries of a master: it applies commands, lets entries expire, and keeps the last changes |
| `naming` | what a store may be called, where its topics are, how a setting names it |
| `snapshot` | all entries, page by page, while they change |
| `replica` | a copy: pages of a snapshot, and the changes behind it |

Keys and values are msgpack, as the hub carries it (docs/data-model.md); nothing here looks into them.
"""
