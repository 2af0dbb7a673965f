"""Stores as clients have them. See docs/stores.md.

| file | |
|---|---|
| `store` | `client.store("name")`: commands and reads, each a request |
| `values` | keys and values on their way to the store, and back |
| `copying` | keeps a `hub.stores.replica` equal to the master |
| `replica`, `watch` | what programs do with one: read from it, or hear of each change |
"""
