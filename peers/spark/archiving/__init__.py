"""Archives: the journal of a hub as folders of Parquet, or as an Iceberg table.

```
archive ─▶ writing ─▶ staging (tasks) ─▶ folders, iceberg      one micro-batch of a streaming query after the other
   └─────▶ state, compaction                                    what is beside them
```
"""
