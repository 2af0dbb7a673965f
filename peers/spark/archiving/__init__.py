"""Archives: the journal of a hub as folders of Parquet, or as an Iceberg table."""
