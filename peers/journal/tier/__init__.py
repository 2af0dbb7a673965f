"""The tier of a journal: Parquet files elsewhere, in a folder or on S3, of what is sealed here.

```
segments ─▶ copier (process of its own) ─▶ table ─▶ parquet ─▶ place: folder or S3
                                                    sheets ──▶   │
FETCH ─▶ reader process: history ─▶ view (segments here)         │
                                 └▶ shelf, parquet, table ◀──────┘
```

What is there is found by the manifest, sheet by sheet (`sheets`), which is written anew where it was lost
(`rebuilding`). A file that ends who reads it is left alone (`poisoned`).

`pyarrow` is an extra: nothing of it is loaded where a hub has no tier.
"""

from __future__ import annotations
