"""Broker's data stores without I/O: the commands, the channels that carry them, and what each end makes of them.

```
topics ─ which topics a store has                         command ─ one command as bytes, and back
producer ── numbered actions ──▶ consumer                 the channel: what is lost comes again
master ◀── wishes, changes ──▶ clone                      the two ends of a store
forwarder ─ between the two, where they are at different endpoints
ledger ─ under which numbers clones are told of what, over restarts of the hub
served, followed ─ a store of this hub as what a master serves, or what a clone copies to
writes, charges ─ what clients of this hub want changed in a store that is followed, and who is charged for it
```
"""
