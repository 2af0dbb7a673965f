"""Bringing an archive back to a hub: in the order of the offsets, at a pace.

```
replay ─▶ windows (Spark: so many messages at a time) ─▶ publishing ─▶ client ─▶ hub
                                                             └─▶ pace: when each is due
```
"""
