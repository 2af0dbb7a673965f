"""Hubs that listen for WebSockets."""

from __future__ import annotations

import pytest


@pytest.fixture
def default_url() -> str:
    """Where hubs listen unless a test says otherwise."""
    return "ws://127.0.0.1:0"
