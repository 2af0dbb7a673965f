"""The tier of a journal: Parquet files elsewhere, in a folder or on S3, of what is sealed here.

```
segments ─▶ copier (process of its own) ─▶ table ─▶ parquet ─▶ place: folder or S3
                                                    sheets ──▶   │
FETCH ─▶ reader process: history ─▶ view (segments here)         │
                                 └▶ shelf, parquet, table ◀──────┘
```

`pyarrow` is an extra: nothing of it is loaded where a hub has no tier.
"""

from __future__ import annotations
