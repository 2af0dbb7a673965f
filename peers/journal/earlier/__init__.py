"""Journals of earlier versions, to be taken over. They are read, never written."""

from __future__ import annotations
