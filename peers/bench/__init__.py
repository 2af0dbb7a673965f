"""`hub bench`: how fast is a hub, what does it cost, and does it lose anything?

```
                    ┌─ publisher (process) ──▶           ──▶ subscribers (process) ─┐
command ── stage ───┤                          the hub                              ├── board (shared memory)
                    └─ bystanders (process) ◀─ (process) ──▶ stalled (process)      ┘
```

Everything that makes load is a process of its own, so that the operating system can tell what the hub itself costs.
"""
