"""Tests that need a loop run on both loops."""

from __future__ import annotations

from tests.loops import pytest_asyncio_loop_factories

__all__ = ["pytest_asyncio_loop_factories"]
