"""`file_errors`: what goes wrong with a file of a tier, told with its name, to readers of the hub and to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from hub.errors import JournalCorruptError
from peers.journal.tier.place import TierUnavailableError

__all__ = ["file_errors"]


@contextmanager
def file_errors(address: str, name: str, reach: str = "") -> Iterator[None]:
    """Have what goes wrong with a file say which one it is. That it is not there is told by the place.

    Args:
        address: Of the tier.
        name: Of the file, in the tier.
        reach: The offsets that are read, if that is a part of the file.

    Raises:
        JournalCorruptError: It is not what was written.
        TierUnavailableError: It cannot be read now.
    """
    try:
        yield
    except JournalCorruptError as error:
        where = ": ".join(filter(None, (address, name, reach)))
        raise JournalCorruptError(f"{where}: {error}") from error
    except (OSError, pa.ArrowException) as error:
        raise TierUnavailableError(f"{address}: {name}: {' '.join(str(error).split())}") from error
