"""The zip of this project's own code, for the executors of a cluster (`--py-files`).

It holds the Python sources of `hub`, `peers` and `pyspark_hub`. Compiled twins cannot be loaded from a zip: executors
run the pure modules. What the project depends on (pyarrow, pandas, msgpack, msgspec, pygtrie ...) is not in it: the
Python of the executors must have it.

Invariant: the same sources make the same bytes. Cost: tens of milliseconds.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

from hub.errors import UsageError

__all__ = ["PACKAGES", "write_package"]

PACKAGES = ("hub", "peers", "pyspark_hub")

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The oldest date that a zip can hold: what stands in it does not depend on when it was made."""


def write_package(path: Path) -> int:
    """Write the zip to `path`.

    Returns:
        How many files are in it.

    Raises:
        UsageError: It cannot be written there.
    """
    count = 0
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
            for name, source in _sources():
                package.writestr(zipfile.ZipInfo(name, _LONG_AGO), source.read_bytes(), zipfile.ZIP_DEFLATED)
                count += 1
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return count


def _sources() -> Iterator[tuple[str, Path]]:
    """Each file's name in the zip, and where it is."""
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        for folder in found.submodule_search_locations or () if found is not None else ():
            root = Path(folder)
            for source in sorted(root.rglob("*.py")):
                yield str(Path(package) / source.relative_to(root)), source
