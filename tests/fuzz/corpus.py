"""Inputs that are kept: one file each, in a folder for each target. Those that have found something stay for good."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.fuzz.target import Target

__all__ = ["FOLDER", "keep", "kept"]

FOLDER = Path(__file__).parent / "corpus"


def kept(target: Target, folder: Path = FOLDER) -> list[bytes]:
    """Return what is kept for a target, in the order of the files' names."""
    return [path.read_bytes() for path in sorted((folder / target.name).glob("*")) if path.is_file()]


def keep(target: Target, data: bytes, folder: Path) -> Path:
    """Keep an input; return where."""
    path = folder / target.name / hashlib.sha1(data, usedforsecurity=False).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
