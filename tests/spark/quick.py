"""Java as the tests start it: they live for seconds, in which optimising costs more than it gains.

Half of the work of a short session is to load Spark's classes. `share_classes` writes those down in a form that Java
only maps; a session takes them from there if the file exists.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["QUICK_CONF", "QUICK_JAVA", "SHARED_CLASSES", "SILENT"]

SHARED_CLASSES = Path(sys.prefix) / "spark-classes.jsa"
"""Of the Spark of this virtual environment."""

SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A file that another Java has written is passed over, and classes that cannot be in it, too, without a word."""

_SHARING = f" -XX:SharedArchiveFile={SHARED_CLASSES} {SILENT}" if SHARED_CLASSES.exists() else ""

QUICK_JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC{_SHARING}"

QUICK_CONF = {"spark.driver.extraJavaOptions": QUICK_JAVA}
"""The same as settings of a session."""
