"""Stores, without I/O: named sets of entries, which one master keeps and any number of replicas copy.

| file | |
|---|---|
| `command`, `change` | what a store is asked to do; what it has done, under the next number |
| `store` | the entries of a master: it applies commands |
| `naming` | what a store may be called, where its topics are, how a setting names it |
| `operations` | what must be known of types: arithmetic, members, canonical keys; others implement it |
| `limits` | how much one store may hold |
| `expiry` | which entries are due when |
| `changes` | the last changes, for those who have missed some |
| `snapshot` | all entries, page by page, while they change |
| `replica` | a copy: pages of a snapshot, and the changes behind it |

Keys and values are msgpack, as the hub carries it (docs/data-model.md); nothing here looks into them.
"""
