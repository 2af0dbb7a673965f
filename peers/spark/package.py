"""The zip of this project's own code, for the executors of a cluster (`--py-files`).

It holds the Python sources: compiled twins cannot be loaded from a zip. The dependencies (pyarrow, pandas, msgpack,
msgspec, pygtrie ...) must be installed in the Python of the executors. The same sources make the same bytes.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

from hub.errors import UsageError

_PACKAGES = ("hub", "peers", "pyspark_hub")

# The oldest date that a zip can hold: the bytes do not depend on when it was made.
_DATE = (1980, 1, 1, 0, 0, 0)


def write_package(path: Path) -> int:
    """Write the zip; return how many files it has."""
    count = 0
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
            for name, source in _sources():
                package.writestr(zipfile.ZipInfo(name, _DATE), source.read_bytes(), zipfile.ZIP_DEFLATED)
                count += 1
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return count


def _sources() -> Iterator[tuple[str, Path]]:
    """Yield the name in the zip and the path of each file."""
    for package in _PACKAGES:
        found = importlib.util.find_spec(package)
        for folder in found.submodule_search_locations or () if found is not None else ():
            root = Path(folder)
            for source in sorted(root.rglob("*.py")):
                yield str(Path(package) / source.relative_to(root)), source
