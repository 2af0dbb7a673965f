"""`Shelf`: the files of one journal in a tier: the manifest, read and written, and the files that it names.

```
put(file, entry)     data/A-B.parquet ─ read back, compared ─▶ manifest/A-B.json        from now on it counts
join()               [A-B][B-C] ... of 256 sheets ─▶ [A-Z]     then the 256 are deleted
drop(entries)        the sheets without them, written ─▶ the old sheets deleted ─▶ the files deleted
sweep()              files that no sheet names are deleted: what a crash has left behind
```

Whatever step is the last one before a crash, the manifest names files that are whole, and no more than twice.

Owner: of what is written, one process (`peers.journal.tier.copier`); readers have shelves of their own, which only
read. Cost: a listing of the sheets at each look, and the sheets that are new.
"""

from __future__ import annotations

from hashlib import sha256

import pyarrow as pa

from hub.errors import JournalCorruptError, StorageError
from hub.journal.manifest import Entry, Manifest, encode_sheet, parse_sheet, range_name, range_of
from peers.journal.tier.parquet import Opened
from peers.journal.tier.place import AbsentError, Place
from peers.journal.whole_file import MAKING

__all__ = ["JOINED_SHEETS", "Shelf", "data_name"]

JOINED_SHEETS = 256
"""So many sheets of one file each become one: a reader that comes asks for as many at most, and one more for each so
many files."""

_SHEET = ".json"

_DATA = ".parquet"


def data_name(journal: bytes, entry: Entry) -> str:
    """Return the name of a file, within the tier."""
    return f"{journal.hex()}/data/{entry.name}{_DATA}"


class Shelf:
    """The files of one journal in a tier.

    Args:
        place: Where the tier stands.
        journal: Id of the journal.
    """

    def __init__(self, place: Place, journal: bytes) -> None:
        self.place = place
        self.journal = journal
        self.manifest = Manifest()
        """What it holds, as of the last look."""
        # What each sheet says, by its name and its length.
        self._sheets: dict[tuple[str, int], tuple[Entry, ...]] = {}

    def refresh(self) -> None:
        """See what there is now.

        Raises:
            JournalCorruptError: The manifest is damaged.
            TierUnavailableError: It cannot be read now.
        """
        found: dict[tuple[str, int], tuple[Entry, ...]] = {}
        for name, size in self.place.sizes(f"{self.journal.hex()}/manifest").items():
            if name.endswith(_SHEET) and range_of(name.removesuffix(_SHEET)):
                known = self._sheets.get((name, size))
                found[name, size] = self._sheet(name) if known is None else known
        if found.keys() != self._sheets.keys() or not found:
            self.manifest = Manifest(entry for entries in found.values() for entry in entries)
        self._sheets = found

    def _sheet(self, name: str) -> tuple[Entry, ...]:
        path = f"{self.journal.hex()}/manifest/{name}"
        try:
            return parse_sheet(self.place.read(path), self.journal)
        except StorageError as error:
            raise type(error)(f"{self.place.address}: {path}: {error}") from error

    def flaw_of(self, entry: Entry) -> str:
        """Read all of a file; return what is wrong with it, empty if nothing is.

        Raises:
            TierUnavailableError: It cannot be read now.
        """
        try:
            self._check(entry)
        except AbsentError:
            return "there is no such file"
        except JournalCorruptError as error:
            return str(error)
        return ""

    def _check(self, entry: Entry) -> None:
        """Read all of a file.

        Raises:
            JournalCorruptError: It is not what was written.
            TierUnavailableError: It cannot be read now.
        """
        read = self.place.read(data_name(self.journal, entry))
        if sha256(read).hexdigest() != entry.sha256:
            raise JournalCorruptError("the checksum of the file does not match")
        Opened(pa.BufferReader(read), entry, self.journal).check()

    # What only the owner does.

    def put(self, data: bytes | memoryview, entry: Entry) -> None:
        """Put a file there, see that it is what it should be, and name it in the manifest.

        Args:
            data: The file.
            entry: What is known of it; it follows what is there.

        Raises:
            JournalCorruptError: What stands there is not what was written; no sheet names it.
            TierUnavailableError: It cannot be written or read now; no sheet names it, as far as is known.
        """
        name = data_name(self.journal, entry)
        self.place.write(name, data)
        try:
            self._check(entry)
        except JournalCorruptError as error:
            raise JournalCorruptError(f"{self.place.address}: {name}: reads as something else: {error}") from error
        self._write_sheet((entry,))
        self.manifest = Manifest([*self.manifest.entries, entry])

    def _write_sheet(self, entries: tuple[Entry, ...]) -> None:
        name = f"{range_name(entries[0].first, entries[-1].next)}{_SHEET}"
        data = encode_sheet(self.journal, entries)
        self.place.write(f"{self.journal.hex()}/manifest/{name}", data)
        for key in [key for key in self._sheets if key[0] == name]:
            del self._sheets[key]
        self._sheets[name, len(data)] = entries

    def _delete_sheet(self, key: tuple[str, int]) -> None:
        self.place.delete(f"{self.journal.hex()}/manifest/{key[0]}")
        del self._sheets[key]

    def join(self) -> None:
        """Make one sheet of many small ones, where there are enough of them.

        Raises:
            TierUnavailableError: They cannot be written now; the manifest is as it was.
        """
        small = sorted(key for key, entries in self._sheets.items() if len(entries) == 1)
        if len(small) < JOINED_SHEETS:
            return
        entries = sorted((self._sheets[key][0] for key in small), key=_first_of)
        self._write_sheet(tuple(entries))
        for key in small:
            self._delete_sheet(key)

    def drop(self, count: int) -> None:
        """Leave out the oldest files, and delete them.

        Raises:
            TierUnavailableError: Not all of that could be done; `sweep` does the rest.
        """
        dropped, kept = self.manifest.entries[:count], self.manifest.entries[count:]
        firsts = {entry.first for entry in dropped}
        for key, entries in list(self._sheets.items()):
            left = tuple(entry for entry in entries if entry.first not in firsts)
            if len(left) == len(entries):
                continue
            if left:
                self._write_sheet(left)
            self._delete_sheet(key)
        self.manifest = Manifest(kept)
        for entry in dropped:
            self.place.delete(data_name(self.journal, entry))

    def sweep(self) -> int:
        """Delete what a crash has left behind; return how many files.

        These are files before and behind what the manifest names. One in its midst was named once, and its sheet is
        lost: it stays.

        Raises:
            TierUnavailableError: Not all of that could be done.
        """
        stray = [name for name in self.place.sizes(f"{self.journal.hex()}/data") if self._is_stray(name)]
        for name in stray:
            self.place.delete(f"{self.journal.hex()}/data/{name}")
        return len(stray)

    def _is_stray(self, name: str) -> bool:
        if name.endswith(_DATA + MAKING):
            return True
        reach = range_of(name.removesuffix(_DATA))
        if reach is None or not name.endswith(_DATA):
            return False
        manifest = self.manifest
        return manifest.next is None or reach[0] >= manifest.next or reach[1] <= (manifest.first or 0)


def _first_of(entry: Entry) -> int:
    return entry.first
