"""The source and sink `format("hub")`, which `pyspark_hub` registers. All runs in processes that Spark starts."""
