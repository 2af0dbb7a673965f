"""The source and sink `format("hub")`, which `pyspark_hub` registers.

```
options ─▶ source (plans) ─▶ shares of offsets ─▶ tasks: connection or tier ─▶ record_batches, fields ─▶ Arrow ─▶ Spark
Spark ─▶ Arrow ─▶ sink ─▶ connection ─▶ hub
```

All of it runs in Python processes that Spark starts; only connections are kept between calls.
"""
