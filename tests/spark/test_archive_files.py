"""The files of an archive: which rows a selection reads, and which folders are read for that."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from hub.errors import InvalidTopicError, UsageError
from peers.spark.archiving.folders import Selection, files_of, microseconds, root_folder, root_in, root_of, table_of
from tests.spark.archives import NOON_US, Archived, archived, offsets_of, write_archive

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)

TOPICS = ["/zeek/dns", "/zeek/conn", "/zebra", "zeek/dns", "007", "/", "//x", "/zeek", "/été/a=b%2f"]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    messages = archived(TOPICS)
    write_archive(tmp_path, messages[:4], 0)
    return write_archive(tmp_path, messages[4:], 1)


def test_prefixes_are_the_hubs(archive: Path) -> None:
    for prefix in ("", "/", "/z", "/ze", "/zeek", "/zeek/", "/zeek/d", "z", "zeek/", "//", "/é", "0", "x"):
        expected = [offset for offset, topic in enumerate(TOPICS) if topic.startswith(prefix)]
        assert offsets_of(archive, Selection([prefix])) == expected, prefix
    assert offsets_of(archive, Selection(["/zeek/", "/zeek/dns", "007"])) == [0, 1, 4]


@pytest.mark.parametrize(
    ("topic", "levels", "table"),
    [
        ("/zeek/conn/x", 2, "zeek_conn"),
        ("/zeek", 2, "zeek"),
        ("plain/été.1", 0, "plain_été_1"),
        ("/a//b", 2, "a_"),
        ("/", 1, "_"),
        (f"/{'𝄞x' * 40}", 1, "_x" * 30),
    ],
)
def test_names_of_tables(topic: str, levels: int, table: str) -> None:
    assert table_of(topic, levels) == table


@pytest.mark.parametrize(
    ("topic", "folder"),
    [
        ("/zeek/dns", "root=zeek"),
        ("007", "root=007"),
        ("/", "root=__HIVE_DEFAULT_PARTITION__"),
        ("/a:b*c/", "root=a%3Ab%2Ac"),
        ("/ [%]{=}'?#\"^\\\x01\x7f", "root= %5B%25%5D%7B%3D}%27%3F%23%22%5E%5C%01%7F"),
        (f"/{'𝄞' * 300}/a", f"root={'𝄞' * 60}"),
    ],
)
def test_names_of_folders(topic: str, folder: str) -> None:
    assert root_folder(root_of(topic)) == folder
    assert root_in(Path(folder)) == root_of(topic)


def test_folders_that_cannot_match_are_not_read(archive: Path) -> None:
    for folder in ("date=2026-11-21/root=other", "date=2026-11-20/root=zeek", "date=2026-11-22/root=zeek"):
        (archive / folder / "batch=0").mkdir(parents=True)
        (archive / folder / "batch=0" / "part-0.parquet").write_text("nonsense")
    selection = Selection(["/zeek/"], NOON, NOON + timedelta(seconds=1.5))
    assert {re.sub(r".*/(root=.*?)/.*", r"\1", file) for file in files_of(str(archive), selection)} == {"root=zeek"}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(), {"21:zeek", "21:zebra", "21:", "22:zeek"}),
        (Selection(["/zeek/"]), {"21:zeek", "22:zeek"}),
        (Selection(["/ze"]), {"21:zeek", "21:zebra", "22:zeek"}),
        (Selection(["//"]), {"21:zeek", "21:zebra", "21:", "22:zeek"}),
        (Selection(["/"], NOON, NOON + timedelta(hours=12)), {"21:zeek", "21:zebra", "21:"}),
        (Selection(["zebra/x", "/zeek"], NOON + timedelta(hours=12)), {"22:zeek"}),
    ],
)
def test_folders_of_a_selection(tmp_path: Path, selection: Selection, expected: set[str]) -> None:
    write_archive(tmp_path, archived(["/zeek/dns", "/zebra/x", "/"]))
    write_archive(tmp_path, [Archived(3, NOON_US + 86_400_000_000, "/zeek/dns", b"1")], 1)
    named = [re.search(r"date=2026-11-(\d+)/root=([^/]*)/", file) for file in files_of(str(tmp_path), selection)]
    found = {f"{match[1]}:{match[2].replace('__HIVE_DEFAULT_PARTITION__', '')}" for match in named if match}
    assert found == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (NOON + timedelta(seconds=3), None, [3, 4, 5, 6, 7, 8]),
        (None, NOON + timedelta(seconds=3), [0, 1, 2]),
        (NOON + timedelta(seconds=2), NOON + timedelta(seconds=2, microseconds=1), [2]),
        (datetime(2026, 11, 21, 12, 0, 7), None, [7, 8]),  # noqa: DTZ001 -- without a zone
        (datetime(2026, 11, 21, 14, 0, 7, tzinfo=timezone(timedelta(hours=2))), None, [7, 8]),
        (NOON + timedelta(days=1), None, []),
    ],
)
def test_times(archive: Path, start: datetime | None, end: datetime | None, expected: list[int]) -> None:
    assert offsets_of(archive, Selection((), start, end)) == expected


def test_times_across_midnight(tmp_path: Path) -> None:
    midnight = microseconds(datetime(2026, 11, 22, tzinfo=UTC))
    write_archive(tmp_path, [Archived(number, midnight - 2 + number, "/a", b"\xc0") for number in range(4)])
    start = datetime(2026, 11, 21, 23, 59, 59, 999_999, tzinfo=UTC)
    assert offsets_of(tmp_path, Selection((), start, None)) == [1, 2, 3]
    assert offsets_of(tmp_path, Selection((), None, datetime(2026, 11, 22, tzinfo=UTC))) == [0, 1]


def test_a_selection_that_means_nothing() -> None:
    with pytest.raises(UsageError, match=r"--start, --end: .* is not before"):
        Selection((), NOON, NOON).check()
    with pytest.raises(InvalidTopicError):
        Selection(["/a\n"]).check()
    assert Selection(["/a"], NOON, None).check() == Selection(["/a"], NOON, None)


def test_no_archive(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing: there is no such archive"):
        files_of(str(tmp_path / "nothing"))
    assert offsets_of(tmp_path) == []
