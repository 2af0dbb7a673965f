"""Java as the tests start it: they live for seconds, in which optimising costs more than it gains."""

from __future__ import annotations

__all__ = ["QUICK_CONF", "QUICK_JAVA"]

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

QUICK_CONF = {"spark.driver.extraJavaOptions": QUICK_JAVA}
"""The same as settings of a session."""
