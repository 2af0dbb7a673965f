"""How much is read or written as JSON: whoever sends the worst that is let through takes 50 to 60 ms of the hub."""

from __future__ import annotations

__all__ = ["CONVERTED_ELEMENTS_LIMIT", "CONVERTED_LIMIT_BYTES"]

CONVERTED_LIMIT_BYTES = 512 * 1024
"""Default for the largest JSON text that is read and the largest body that is written as JSON, bytes. The worst texts,
170,000 empty objects or 7,000 addresses that never came before, take about 50 ms."""

CONVERTED_ELEMENTS_LIMIT = 24 * 1024
"""Most elements in a value that is read or written as JSON. The worst, timestamps on days that never came before, take
2 µs: 50 ms. As JSON they are about a megabyte."""
