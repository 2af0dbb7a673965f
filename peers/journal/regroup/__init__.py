"""Sealed segments laid anew, beside the hub, so that a reader of one topic passes over most of them.

```
hub: Regrouping ─ order ─▶ process ─▶ Regrouper ─▶ lay_anew, check_laid ─▶ 000.7.seg.new
                ◀─ Told ──                                                     │
     store ◀─ laid ─┘ puts it in the place of 000.seg ◀────────────────────────┘
```
"""

from __future__ import annotations
