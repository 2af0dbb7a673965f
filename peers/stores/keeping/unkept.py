"""`Unkept`: what a file must still be told of a store, so that it holds what the store does.

Of each key only the last change counts; a clear takes the place of all before it. So it never holds more than the store
has entries, and has lost since, however long the file cannot be written. Of notes the last one of each name counts.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from hub.stores.change import Change, ChangeKind
from hub.stores.store import Store
from peers.stores.keeper import NO_NOTES, Notes

__all__ = ["Row", "Unkept"]

Row: TypeAlias = tuple[bytes, bytes, int, int | None, str | None]
"""Key, value, version, when it expires (ns since 1970), and the user who is charged."""


class Unkept:
    """The changes of one store that are not in its file."""

    __slots__ = ("entries", "is_cleared", "notes", "number", "rows")

    def __init__(self) -> None:
        self.is_cleared = False
        """Whether all that stands in the file goes, before what is here comes."""
        self.rows: dict[bytes, Row | None] = {}
        """Key → its entry; None where there is none any more."""
        self.number = 0
        """Of the last change; 0 while there is none."""
        self.entries = 0
        """How many the store has behind it."""
        self.notes: dict[str, bytes | None] = {}
        """Name → note; None where there is none any more."""

    def __bool__(self) -> bool:
        return bool(self.number or self.notes)

    def add(self, changes: Iterable[Change], store: Store, notes: Notes = NO_NOTES) -> None:
        """Take note of further changes, which the store has carried out already.

        Args:
            changes: In their order.
            store: Says which user an entry is charged to.
            notes: Are to be kept beside them.
        """
        if notes:
            self.notes.update(notes)
        rows, entries = self.rows, store.entries
        for change in changes:
            number, kind, key, value = change.number, change.kind, change.key, change.value
            if value is not None:
                entry = entries.get(key)
                rows[key] = (key, value, number, change.expires_ns, None if entry is None else entry[2])
            elif kind == ChangeKind.CLEAR:
                rows.clear()
                self.is_cleared = True
            else:
                rows[key] = None
            self.number = number
        self.entries = len(entries)

    def put_behind(self, later: Unkept) -> Unkept:
        """Return these changes with others behind them."""
        notes = {**self.notes, **later.notes}
        if later.is_cleared:
            later.notes = notes
            return later
        self.notes = notes
        self.rows.update(later.rows)
        if later.number:
            self.number, self.entries = later.number, later.entries
        return self
