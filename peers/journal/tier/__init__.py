"""The tier of a journal: Parquet files elsewhere, in a folder or on S3, of what is sealed here.

```
segments ─▶ copier (process of its own) ─▶ table ─▶ parquet ─▶ place: folder or S3
                                                    files ───▶   │
FETCH ─▶ reader process: history ─▶ view (segments here)         │
                                 └▶ files, parquet, table ◀─────┘
```

What is there is found by the manifest (`files`), which is made anew where it was lost.

`pyarrow` is an extra: nothing of it is loaded where a hub has no tier.
"""

from __future__ import annotations
