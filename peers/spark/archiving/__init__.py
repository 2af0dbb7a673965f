"""Writing archives: the journal of a hub as folders of Parquet, or as an Iceberg table.

```
archive ─▶ parquet, iceberg                  one micro-batch of a streaming query after the other
   └─────▶ state, compaction ─▶ folders      what is on the disk beside them
```
"""
