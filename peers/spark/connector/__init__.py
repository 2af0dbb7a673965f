"""The hub as a source and a sink of Spark: what `format("hub")` is made of. `pyspark_hub` registers it.

```
options ─▶ batch, stream (plan ranges of offsets) ─▶ reading ─▶ record_batches, decoding ─▶ Arrow ─▶ Spark
                        connection ─▶ BlockingClient ─▶ hub
Spark ─▶ Arrow ─▶ sink ─▶ encoding, staging ─▶ connection ─▶ hub
```

Everything here runs in Python processes that Spark starts; nothing is kept between calls but connections.
"""
