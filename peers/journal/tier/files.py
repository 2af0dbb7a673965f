"""`TierFiles`: the files of one journal in a tier, and their manifest.

```
<id of the journal>/data/<first>-<next>.parquet     records
<id of the journal>/manifest.json                   all files: offsets, times, topics, checksums
```

A file is written, read back and compared before the manifest lists it; it leaves the manifest before it is deleted. The
manifest is replaced as a whole. A lost or damaged one is rebuilt from the files. Cost: 0.5 KiB and 15 µs a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import pyarrow as pa

from hub.errors import JournalCorruptError, JournalUnavailableError, StorageError
from hub.journal.manifest import Entry, Manifest, encode_manifest, parse_manifest, range_name, range_of
from peers.journal.folder import MAKING
from peers.journal.tier.parquet import Opened, entry_from
from peers.journal.tier.place import AbsentError, Place, TierUnavailableError

_DATA = ".parquet"
_MANIFEST = "manifest.json"


@contextmanager
def file_errors(address: str, name: str, reach: str = "") -> Iterator[None]:
    """Add the file, and a range of offsets, to errors; `TierUnavailableError` for errors of reading."""
    try:
        yield
    except JournalCorruptError as error:
        where = ": ".join(filter(None, (address, name, reach)))
        raise JournalCorruptError(f"{where}: {error}") from error
    except (OSError, pa.ArrowException) as error:
        raise TierUnavailableError(f"{address}: {name}: {' '.join(str(error).split())}") from error


def data_name(journal: bytes, entry: Entry) -> str:
    return f"{journal.hex()}/data/{entry.name}{_DATA}"


class TierFiles:
    """The files of one journal in a tier."""

    def __init__(self, place: Place, journal: bytes) -> None:
        self.place = place
        self.journal = journal
        self._name = f"{journal.hex()}/{_MANIFEST}"
        self._folder = f"{journal.hex()}/data"
        # The manifest as of the last look, the last one that was sound; and its bytes, None where there is none.
        self._manifest = Manifest()
        self._data: bytes | None = None
        self._flaw: StorageError | None = None  # damage of the manifest; None while it is sound

    def refresh(self) -> None:
        is_there = _MANIFEST in self.place.sizes(self.journal.hex())
        data = self.place.read(self._name) if is_there else None
        if data is not None and data == self._data:
            return
        self._data = data
        try:
            if data is None and any(map(_reach_of, self.place.sizes(self._folder))):
                raise JournalCorruptError("it is missing, but there are files that it should list")
            self._manifest = Manifest(() if data is None else parse_manifest(data, self.journal))
            self._flaw = None
        except StorageError as error:
            self._flaw = type(error)(f"{self.place.address}: {self._name}: {error}")

    def _check_manifest(self) -> None:
        if self._flaw is not None:
            raise type(self._flaw)(str(self._flaw))

    @property
    def first(self) -> int | None:
        """The oldest offset; None without files; 0 while the manifest is damaged."""
        return self._manifest.first if self._manifest.entries or self._flaw is None else 0

    @property
    def next(self) -> int | None:
        return self._manifest.next

    def entries(self, start: int = 0) -> list[Entry]:
        """Return the entry of each file that ends behind an offset; raises `StorageError` for a bad manifest."""
        self._check_manifest()
        return self.known[self._manifest.place_of(start) :]

    @property
    def known(self) -> list[Entry]:
        """All entries of the last sound manifest."""
        return self._manifest.entries

    def entry_of(self, offset: int) -> Entry | None:
        """Return the file with an offset, or None. Raises as `entries`."""
        return None if self.following(offset) != offset else self.known[self._manifest.place_of(offset)]

    def following(self, offset: int) -> int | None:
        """Return the first offset from this one on that a file has, or None. Raises as `entries`."""
        place = self._manifest.place_of(offset)
        if place < len(self.known):
            return max(offset, self.known[place].first)
        self._check_manifest()
        return None

    def flaw_of(self, entry: Entry) -> str:
        """Verify a whole file; return the damage, or an empty text. Raises `TierUnavailableError`."""
        try:
            self._check(entry)
        except AbsentError:
            return "there is no such file"
        except JournalCorruptError as error:
            return str(error)
        return ""

    def _check(self, entry: Entry) -> None:
        read = self.place.read(data_name(self.journal, entry))
        if sha256(read).hexdigest() != entry.sha256:
            raise JournalCorruptError("the checksum of the file does not match")
        Opened(pa.BufferReader(read), entry, self.journal).check()

    def put(self, data: bytes | memoryview, entry: Entry) -> None:
        """Write a file, read it back, and list it in the manifest, unless that raises a `StorageError`."""
        name = data_name(self.journal, entry)
        self.place.write(name, data)
        try:
            self._check(entry)
        except JournalCorruptError as error:
            self.place.delete(name)
            raise JournalCorruptError(f"{self.place.address}: {name}: reads as something else: {error}") from error
        self._write([*self._manifest.entries, entry])

    def _write(self, entries: list[Entry]) -> None:
        data = encode_manifest(self.journal, entries)
        self.place.write(self._name, data)
        self._manifest, self._data, self._flaw = Manifest(entries), data, None

    def drop(self, before: int) -> None:
        """Remove the files that end at an offset or before. Raises `TierUnavailableError`: `sweep` does the rest."""
        entries = self._manifest.entries
        place = self._manifest.place_of(before)
        self._write(entries[place:])
        for entry in entries[:place]:
            self.place.delete(data_name(self.journal, entry))

    def sweep(self, first: int) -> None:
        """Delete files before `first` and behind the manifest. One in between is damaged: it stays."""
        following = self.next or 0
        for name in self.place.sizes(self._folder):
            reach = _reach_of(name)
            is_stray = name.endswith(_DATA + MAKING) if reach is None else reach[0] >= following or reach[1] <= first
            if is_stray:
                self.place.delete(f"{self._folder}/{name}")

    def rebuild(self, first: int, following: int) -> bool:
        """Rebuild a lost or damaged manifest from the files; return whether that was needed. Raises `StorageError`.

        Files that end at `first` or before were deleted on purpose; files that end behind `following` were never
        listed.
        """
        if self._flaw is None and self._data is not None:
            return False
        if isinstance(self._flaw, JournalUnavailableError):
            self._check_manifest()
        entries: list[Entry] = []
        for reach in sorted(filter(None, map(_reach_of, self.place.sizes(self._folder)))):
            if reach[0] < first or reach[1] > following or (entries and reach[0] < entries[-1].next):
                continue
            try:
                data = self.place.read(f"{self._folder}/{range_name(*reach)}{_DATA}")
                entries.append(entry_from(data, reach, self.journal))
            except JournalCorruptError:
                continue  # it stays where it is
        if entries:
            self._write(entries)
        return True


def _reach_of(name: str) -> tuple[int, int] | None:
    return range_of(name.removesuffix(_DATA)) if name.endswith(_DATA) else None
