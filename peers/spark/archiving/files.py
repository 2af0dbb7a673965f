"""The files of an archive, and which of them hold the messages of a selection.

```
ARCHIVE/date=2026-11-21/root=zeek/batch=7/part-*.parquet      zstd
ARCHIVE/table=zeek_conn/date=...                              the same, with a table for each topic
ARCHIVE/_hub/                                                 state of the job that writes it

offset BIGINT, timestamp TIMESTAMP (UTC, µs), topic STRING, value BINARY (msgpack)
```

A decoded archive has, in place of `value`: `_bytes` (its size), a column for each field, `_rest`, and `event_time` if
it was asked for, whose date then names the folders. `root` is the first component of a topic without slashes: `zeek` of
`/zeek/dns`, and of a topic without a leading slash the text up to its first one.

Folders only exclude files that hold no message of a selection. This module is light: the command line imports it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from hub.errors import UsageError
from hub.topics import check_prefix, printable
from peers.spark.archiving.folders import batches, parts, root_in, roots
from peers.spark.archiving.iceberg import data_files, is_iceberg
from peers.spark.archiving.state import DecodedState, load

# Roots and tables are cut to this. A file's name may have 255 bytes, a character up to 4.
_NAME_CHARACTERS = 60

_DAY_US = 86_400_000_000


class Selection(NamedTuple):
    """Which messages of an archive are read; all by default."""

    prefixes: Sequence[str] = ()
    """Topics that start with one of these; none: all topics."""
    start: datetime | None = None
    """Not before it; UTC without a zone."""
    end: datetime | None = None
    """Before it; UTC without a zone."""

    def check(self) -> Selection:
        """Return it, checked."""
        for prefix in self.prefixes:
            check_prefix(prefix)
        if self.start is not None and self.end is not None and microseconds(self.start) >= microseconds(self.end):
            raise UsageError(f"--start, --end: {self.start} is not before {self.end}")
        return self

    def words(self) -> str:
        """Describe it for people."""
        said = [f"topics that begin with {' or '.join(map(printable, self.prefixes))}"] if self.prefixes else []
        if self.start is not None:
            said.append(f"from {self.start.isoformat()} on")
        if self.end is not None:
            said.append(f"before {self.end.isoformat()}")
        return ", ".join(said) or "everything"


EVERYTHING = Selection()


def microseconds(time: datetime) -> int:
    """Return µs since 1970 UTC; a time without a zone is UTC."""
    time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return int(time.timestamp()) * 1_000_000 + time.microsecond


def root_of(topic: str) -> str:
    """Return the root of a topic, which names its folder."""
    return topic.removeprefix("/").partition("/")[0][:_NAME_CHARACTERS]


def table_of(topic: str, levels: int) -> str:
    """Return the name of the table of a topic: so many of its components (0: all), joined by underscores."""
    text = topic.removeprefix("/")
    if levels:
        text = "/".join(text.split("/", levels)[:levels])
    text = text[:_NAME_CHARACTERS]
    return "".join(one if unicodedata.category(one)[0] in "LN" else "_" for one in text) or "_"


def decoded_state(path: str) -> DecodedState | None:
    """Return the columns of a decoded archive, None of an archive of values."""
    state = load(Path(path))
    return None if state is None else state.decoded


def files_of(path: str, selection: Selection = EVERYTHING) -> list[str]:
    """Return the Parquet files that may hold messages of a selection."""
    if not Path(path).is_dir():
        raise UsageError(f"{path}: there is no such archive")
    if is_iceberg(path):
        return [file.removeprefix("file://") for file in data_files(path)]
    folders = [root for root in roots(Path(path)) if _may_hold(root, selection)]
    return [str(part) for root in folders for batch in batches(root).values() for part in parts(batch)]


def _may_hold(folder: Path, selection: Selection) -> bool:
    """Return whether the folder of a date and a root may hold a message of a selection."""
    day = (date.fromisoformat(folder.parent.name.removeprefix("date=")) - date(1970, 1, 1)).days * _DAY_US
    if selection.start is not None and day + _DAY_US <= microseconds(selection.start):
        return False
    if selection.end is not None and day >= microseconds(selection.end):
        return False
    root = root_in(folder)
    components = [prefix.removeprefix("/").partition("/") for prefix in selection.prefixes or ("",)]
    return any(
        root == component[:_NAME_CHARACTERS] if component and slash else root.startswith(component[:_NAME_CHARACTERS])
        for component, slash, _ in components
    )
