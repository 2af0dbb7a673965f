"""Registers `format("hub")` with Spark: nothing is to be called, the package only has to be installed.

    spark.read.format("hub").option("url", "tcp://127.0.0.1:7400").option("topics", "/zeek/").load()

At the first format that it does not know, Spark imports every package whose name begins with `pyspark_`, and takes
its `DefaultSource`. It does so in any session of anybody, so that this module is light and never raises; what does the
work is `peers.spark.connector`, imported when it is used. See docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

try:
    from pyspark.sql.datasource import DataSource
except ImportError:  # not in Spark, or in one that is too old: then nobody asks for `DefaultSource`
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]

    if TYPE_CHECKING:
        from pyspark.sql.datasource import (
            DataSourceReader,
            DataSourceStreamArrowWriter,
            DataSourceStreamReader,
            DataSourceWriter,
        )
        from pyspark.sql.types import StructType

    P = ParamSpec("P")
    R = TypeVar("R")

    def _shortened(method: Callable[P, R]) -> Callable[P, R]:
        """Have errors of ours raised without the calls below, which Spark shows before their text."""

        @wraps(method)
        def shorter(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return method(*args, **kwargs)
            except Exception as error:
                from hub.errors import HubError  # noqa: PLC0415 -- see above

                if isinstance(error, HubError):
                    raise error.with_traceback(None) from None
                raise

        return shorter

    class DefaultSource(DataSource):
        """A hub with a journal, as a source and a sink."""

        @classmethod
        def name(cls) -> str:
            """Return what it is called in `format`."""
            return "hub"

        @_shortened
        def schema(self) -> StructType:
            """Return the columns of a query that names none."""
            from peers.spark.connector.fields import default_schema  # noqa: PLC0415 -- see above
            from peers.spark.connector.options import read_source_options  # noqa: PLC0415 -- the same
            from peers.spark.connector.source import sampled_schema  # noqa: PLC0415 -- the same

            options = read_source_options(self.options, streaming=None)
            return sampled_schema(options) if options.decode == "schema" else default_schema(options.decode)

        @_shortened
        def reader(self, schema: StructType) -> DataSourceReader:
            """Return what reads a range of the journal."""
            from peers.spark.connector.fields import checked_schema  # noqa: PLC0415 -- the same
            from peers.spark.connector.options import read_source_options  # noqa: PLC0415 -- the same
            from peers.spark.connector.source import BatchReader  # noqa: PLC0415 -- see above

            options = read_source_options(self.options, streaming=False)
            return BatchReader(checked_schema(schema, options.decode), options)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
            """Return what reads the journal as it grows; what cannot be read so, it says when it is asked.

            For if this raises, Spark adds an error of its own to it (`reader` of its runner has no value then).
            """
            from hub.errors import UsageError  # noqa: PLC0415 -- see above
            from peers.spark.connector.fields import checked_schema  # noqa: PLC0415 -- the same
            from peers.spark.connector.options import read_source_options  # noqa: PLC0415 -- the same
            from peers.spark.connector.source import RefusedStream, StreamReader  # noqa: PLC0415 -- the same

            try:
                options = read_source_options(self.options, streaming=True)
                return StreamReader(checked_schema(schema, options.decode), options)
            except UsageError as error:
                return RefusedStream(error)

        @_shortened
        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 -- Spark's signature
            """Return what writes a DataFrame, all of it or nothing."""
            from peers.spark.connector.sink import BatchWriter  # noqa: PLC0415 -- see above

            return BatchWriter.of(schema, self.options, overwrite=overwrite)

        @_shortened
        def streamWriter(  # noqa: N802 -- Spark's name
            self,
            schema: StructType,
            overwrite: bool,  # noqa: FBT001 -- Spark's signature
        ) -> DataSourceStreamArrowWriter:
            """Return what writes a stream, each micro-batch once."""
            from peers.spark.connector.sink import StreamWriter  # noqa: PLC0415 -- see above

            return StreamWriter.of(schema, self.options, overwrite=overwrite)
