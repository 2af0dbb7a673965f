"""What a program that a test starts can import: this project, and nothing that the test itself does without."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def python_path() -> dict[str, str]:
    """Return the variable of the environment for it.

    Behind the project stands `tests/without`, where the tests do without some modules: then the program does, too.
    """
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))}
