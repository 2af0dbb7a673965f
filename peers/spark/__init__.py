"""The hub's data on Apache Spark: a session, archives as DataFrames, and the jobs behind `hub spark`.

```
cli/spark ──▶ report, routing ──▶ archive_files          what is asked, and of what
    └───────▶ session ──▶ java, package, progress        where it runs
```

pyspark is an extra (`spark`) and heavy: nothing outside this package and `peers.cli.spark` imports it, and
the modules that the command line loads at once (`session`, `package`, `progress`, `summary`) do so only when called.
"""
