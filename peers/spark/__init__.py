"""Spark: the source and sink `format("hub")`, archives of a journal, and the jobs of `hub spark`.

pyspark is an extra (`spark`) and heavy: only this package and `peers.cli.spark` import it, when a job runs.
"""
