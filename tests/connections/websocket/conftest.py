"""Hubs that listen for WebSockets."""

from __future__ import annotations

import pytest


@pytest.fixture
def default_url() -> str:
    return "ws://127.0.0.1:0"
