"""The tier of a journal: its sealed segments as Parquet files, in a folder or on S3.

```
segments ─▶ copier (its own process) ─▶ parquet ─▶ place: folder or S3
                                        files ───▶   │
FETCH ─▶ reader process: history ─▶ view (segments here)
                                 └▶ tier_view ─▶ files, parquet
```

The manifest (`files`) lists the files. `pyarrow` is an extra, loaded only by hubs with a tier.
"""
