"""Benchmarks in the test's own process fork what makes their load."""

from __future__ import annotations

from tests.forked.load import forked_load, load_server

__all__ = ["forked_load", "load_server"]
