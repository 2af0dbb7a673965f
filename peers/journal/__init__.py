"""The journal: what the hub carries, recorded in one file, read back by offset. See docs/journal.md.

```
core ─▶ Recorder (a handler) ─▶ Writer (thread) ─▶ Store ─▶ SQLite file
clients ◀─ Readers ◀─ reader processes ◀─ View ◀───────────────┘
```
"""
