"""Stores as a hub and its clients have them; `hub.stores` is what they are without I/O.

| file | |
|---|---|
| `operations` | arithmetic and containers, with the types of docs/data-model.md |
| `wire` | what stands in requests, answers and messages; topics |
| `stores`, `master` | those of a hub; one of them: it answers, tells changes, lets entries expire |
| `reading` | what is asked of a master without changing anything |
| `keeping` | where a master's entries are when the hub is not running: nowhere, or in a file |
"""
