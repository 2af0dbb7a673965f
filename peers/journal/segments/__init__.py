"""The folder of a journal: its segments as files, how one is written, how they are read."""

from __future__ import annotations
