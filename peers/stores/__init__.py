"""Stores as a hub and its clients have them; `hub.stores` is what they are without I/O.

| file | |
|---|---|
| `operations` | arithmetic and containers, with the types of docs/data-model.md |
"""
