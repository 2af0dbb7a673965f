"""`hub spark package`: this project's code as a zip, for clusters on which it is not installed."""

from __future__ import annotations

from pathlib import Path

from peers.spark.package import write_package
from peers.spark.summary import amount, figures, show

__all__ = ["package"]


def package(path: Path, /) -> None:
    """Write this project's code as a zip for `spark-submit --py-files`.

    Jobs with --master make and send it by themselves. The Python of the executors needs what the project depends on.
    """
    count = write_package(path)
    show(figures([("files", "files", amount(count)), ("size", "bytes", amount(path.stat().st_size))]))
