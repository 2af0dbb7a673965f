"""What goes wrong with a file of a tier says which one it is, whoever reads it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hub.errors import JournalCorruptError
from peers.journal.tier.file_errors import file_errors
from peers.journal.tier.place import AbsentError, TierUnavailableError


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (JournalCorruptError("bad"), JournalCorruptError, "s3://b: a.parquet: offsets 1 to 2: bad"),
        (OSError("no\n  route"), TierUnavailableError, "s3://b: a.parquet: no route"),
        (pa.ArrowInvalid("odd"), TierUnavailableError, "s3://b: a.parquet: odd"),
        (AbsentError("as it was told"), AbsentError, "as it was told"),
    ],
)
def test_errors(raised: Exception, kind: type[Exception], said: str) -> None:
    """Damage names the offsets, too; that a file is not there was told by the place already."""
    with pytest.raises(kind) as caught, file_errors("s3://b", "a.parquet", "offsets 1 to 2"):
        raise raised
    assert type(caught.value) is kind
    assert str(caught.value) == said


def test_a_whole_file() -> None:
    """Without offsets, of the file."""
    with pytest.raises(JournalCorruptError, match=r"^s3://b: a\.parquet: bad$"), file_errors("s3://b", "a.parquet"):
        raise JournalCorruptError("bad")
