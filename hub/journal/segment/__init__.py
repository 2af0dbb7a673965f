"""A segment: the file that a part of a journal is, as bytes. No file is opened here."""

from __future__ import annotations
