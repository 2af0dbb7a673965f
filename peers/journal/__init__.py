"""The journal: what the hub carries, recorded in a folder of segments, read back by offset. See docs/journal.md.

```
core ─▶ Recorder (a handler) ─▶ Writer (thread) ─▶ Store ─▶ segments
clients ◀─ Readers ◀─ reader processes ◀─ View ◀─────────────┘
```
"""
