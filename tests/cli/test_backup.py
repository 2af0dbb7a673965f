"""`hub journal backup` and `restore`, of a journal that a hub writes meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import closing, suppress
from pathlib import Path

from peers.embedding import Hub
from peers.journal.backup import copy_journal
from tests.cli.journals import commit, complaint, fill, lines, opened, run
from tests.journal.files import everything, flip, segments


async def test_a_backup_of_a_busy_hub_and_its_restore_lose_nothing_that_was_confirmed(tmp_path: Path) -> None:
    journal, backup, restored = (tmp_path / name for name in ("journal", "backup", "restored"))
    async with Hub(journal=journal) as hub, hub.connect() as client:

        async def publish() -> None:
            for number in range(1_000_000):
                await client.publish_confirmed("/busy", number)

        for number in range(10):
            await client.publish_confirmed("/a", number)
        async with client.consume("billing", "/a", from_offset=0) as messages:
            for _ in range(4):
                await (await anext(messages)).ack()
        busy = asyncio.create_task(publish())
        confirmed = 0
        for _ in range(3):  # the second and third one go on from the one before
            confirmed = (await client.journal()).head
            (copied,) = await asyncio.to_thread(lines, "backup", journal, backup, "--json")
            assert copied["next"] >= confirmed
        busy.cancel()
        with suppress(asyncio.CancelledError):
            await busy
        epoch = (await client.journal()).epoch
    assert run("restore", backup, restored).splitlines()[-1].startswith("sound: ")
    async with Hub(journal=restored) as hub, hub.connect() as client:
        state = await client.journal()
        assert state.head >= confirmed
        assert state.epoch > epoch
        assert [record.value async for record in client.read("/a")] == list(range(10))
        async with client.consume("billing", "/a") as messages:
            assert (await anext(messages)).value == 4


def test_only_new_segments_are_copied_and_deleted_ones_are_deleted(tmp_path: Path) -> None:
    journal, backup = tmp_path / "journal", tmp_path / "backup"
    with closing(opened(journal, segment_bytes=1)) as store:
        fill(store, 3)
    assert [one["copied_segments"] for one in lines("backup", journal, backup, "--json")] == [len(segments(journal))]
    with closing(opened(journal, segment_bytes=1)) as store:
        commit(store, ("/new", 1))
    segments(journal)[0].unlink()
    (copied,) = lines("backup", journal, backup, "--json")
    assert copied["copied_segments"] < copied["segments"]
    assert [path.name for path in segments(backup)] == [path.name for path in segments(journal)]
    assert all(
        here.read_bytes() == there.read_bytes() for here, there in zip(segments(journal), segments(backup), strict=True)
    )
    assert {oct(path.stat().st_mode)[-3:] for path in segments(backup)} == {"600"}
    assert backup.stat().st_mode & 0o777 == 0o700


def test_segments_that_are_deleted_while_they_are_copied(tmp_path: Path) -> None:
    journal, backup = tmp_path / "journal", tmp_path / "backup"
    with closing(opened(journal, segment_bytes=1)) as store:
        fill(store, 5)

    def delete(_: str, number: int, __: int) -> None:
        if number == 1:  # the first one is copied, the second one not yet
            for path in segments(journal)[:2]:
                path.unlink()

    copied = copy_journal(str(journal), str(backup), delete)
    assert [path.name for path in segments(backup)] == [path.name for path in segments(journal)]
    assert len(everything(backup)) == copied.next - copied.first


def test_a_backup_touches_nothing_that_is_not_an_earlier_one(tmp_path: Path) -> None:
    journal, other, used = (tmp_path / name for name in ("journal", "other", "used"))
    for path in (journal, other):
        with closing(opened(path)) as store:
            commit(store, (f"/{path.name}", 1))
    used.mkdir()
    (used / "letter").write_text("dear")
    assert "has another journal" in complaint("backup", journal, other)
    assert "not a journal" in complaint("backup", journal, used)
    assert "the journal itself" in complaint("backup", journal, journal)
    assert "there is no such journal" in complaint("backup", tmp_path / "none", tmp_path / "new")
    assert "not empty" in complaint("restore", journal, used)
    assert os.listdir(used) == ["letter"]  # noqa: PTH208
    run("backup", journal, tmp_path / "backup")
    with closing(opened(tmp_path / "backup")) as store:
        commit(store, ("/more", 1))
    assert "has newer records" in complaint("backup", journal, tmp_path / "backup")


def test_a_restore_says_what_is_damaged(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with closing(opened(journal)) as store:
        fill(store, 2)
    (path,) = segments(journal)
    flip(path, path.stat().st_size // 2)
    output = run("restore", journal, tmp_path / "restored", "--json", code=3)
    assert any(json.loads(line).get("damaged") for line in output.splitlines())
