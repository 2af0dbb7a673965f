"""The tier of a journal: Parquet files elsewhere, in a folder or on S3, of the sealed segments here.

```
segments ─▶ copier (its own process) ─▶ parquet ─▶ place: folder or S3
                                        files ───▶   │
FETCH ─▶ reader process: history ─▶ view (segments here)
                                 └▶ tier_view ─▶ files, parquet
```

The manifest (`files`) names what is there; it is made again from the files where it was lost. `pyarrow` is an extra: it
is loaded only where a hub has a tier.
"""
