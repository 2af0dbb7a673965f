"""What a program that a test starts can import: this project, and nothing that the test itself does without."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def python_path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))}
