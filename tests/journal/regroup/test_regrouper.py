"""Which segments are laid anew, what becomes of what was laid, and what goes wrong with it."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from hub.errors import JournalUnavailableError
from peers.journal.regroup.regrouper import Regrouper, Stage
from peers.journal.segments.laying import LAID_BYTES, LEAST_BYTES
from peers.journal.store import Store
from tests.journal.files import ALL, AT_US, everything, failing, fill, flip, place_of, segments
from tests.journal.laid import lay
from tests.journal.regroup.made import forms, journal, left_over, owned


def regrouper_of(path: Path) -> Regrouper:
    """One for which no segment is too short."""
    return Regrouper(str(path), compresses=True, least_bytes=1)


def nothing() -> None:
    """Nobody gives up."""


def all_done(regrouper: Regrouper, store: Store) -> None:
    """Let it work until nothing is left to do, and let the owner take what it offers."""
    while (stage := regrouper.step(nothing)) is not Stage.DONE:
        if stage is Stage.OFFERED and regrouper.offered is not None:
            assert regrouper.step(nothing) is Stage.OFFERED
            store.laid.append(regrouper.offered)
            store.commit(now_us=AT_US)


def test_all_sealed_segments_are_laid_anew(path: Path) -> None:
    """Once each; the records are the same, the owner knows what they take, and nothing is left over."""
    before, sizes = everything(path), [file.stat().st_size for file in segments(path)]
    with owned(path) as store:
        regrouper = regrouper_of(path)
        all_done(regrouper, store)
        assert forms(path) == [1, 1, 1, 0]
        after = [file.stat().st_size for file in segments(path)]
        assert store.size_bytes == sum(after)
        assert (regrouper.laid, regrouper.skipped) == (3, 0)
        assert (regrouper.before_bytes, regrouper.after_bytes) == (sum(sizes[:3]), sum(after[:3]))
        assert sum(after[:3]) < sum(sizes[:3]) / 4  # it was not compressed
        regrouper.close()
        again = regrouper_of(path)
        assert again.step(nothing) is Stage.DONE
        again.close()
    assert everything(path) == before
    assert left_over(path) == []


def test_the_newest_first(path: Path) -> None:
    """What is asked for most."""
    regrouper = regrouper_of(path)
    regrouper.step(nothing)
    assert regrouper.offered is not None
    assert regrouper.offered.first == int(segments(path)[2].stem)
    regrouper.close()
    assert left_over(path) == []


def test_short_segments_stay_as_they_are(path: Path) -> None:
    """They are read at once anyway, and may be joined with others."""
    assert max(file.stat().st_size for file in segments(path)) < LEAST_BYTES < LAID_BYTES
    regrouper = Regrouper(str(path), compresses=True)
    assert regrouper.step(nothing) is Stage.DONE


def test_segments_that_are_sealed_meanwhile(path: Path) -> None:
    """Are found with the next step."""
    with owned(path) as store:
        regrouper = regrouper_of(path)
        all_done(regrouper, store)
        store.skip(store.next)
        assert regrouper.step(nothing) is Stage.OFFERED
        regrouper.close()


@pytest.mark.parametrize("meanwhile", ["deleted", "replaced"])
def test_it_never_takes_the_place_of_another(path: Path, meanwhile: str) -> None:
    """A segment that was deleted stays deleted, one that was written again stays; what was laid goes."""
    file = segments(path)[2]
    with owned(path) as store:
        regrouper = regrouper_of(path)
        regrouper.step(nothing)
        assert regrouper.offered is not None
        if meanwhile == "deleted":
            file.unlink()
        else:
            lay(path, file)
        before = file.read_bytes() if file.exists() else b""
        store.laid.append(regrouper.offered)
        store.commit(now_us=AT_US)
        assert (file.read_bytes() if file.exists() else b"") == before
        assert left_over(path) == []
        assert regrouper.step(nothing) is Stage.SETTLED
        assert regrouper.laid == 0
        regrouper.close()


def test_retention_goes_on_meanwhile(tmp_path: Path) -> None:
    """Segments are deleted before they are offered, while they are, and after they were taken."""
    draw = random.Random(1)  # noqa: S311 -- the same every time
    for _ in range(10):
        path = journal(tmp_path / str(draw.random()), 4, size=100)
        store = Store(str(path), full_sync=False, retention=ALL._replace(bytes=9_000), tidies=False)
        regrouper = regrouper_of(path)
        for _ in range(30):
            act = draw.choice(["step", "step", "offer", "fill"])
            if act == "step":
                regrouper.step(nothing)
            elif act == "offer" and regrouper.offered is not None:
                store.laid.append(regrouper.offered)
            elif act == "fill":
                fill(store, 20)
            store.commit(now_us=AT_US)
            found = everything(path)
            assert [record.offset for record in found] == list(range(store.first, store.next))
            assert store.size_bytes == sum(file.stat().st_size for file in segments(path))
        regrouper.close()
        store.close()


def test_damaged_segments_are_passed_over(path: Path) -> None:
    """They stay as they are; the others are laid anew."""
    flip(*place_of(path, 10))
    damaged = segments(path)[1]
    before = damaged.read_bytes()
    with owned(path) as store:
        regrouper = regrouper_of(path)
        all_done(regrouper, store)
        assert (regrouper.laid, regrouper.skipped) == (2, 1)
        regrouper.close()
    assert damaged.read_bytes() == before
    assert forms(path) == [1, 0, 1, 0]


@pytest.mark.parametrize("call", ["fdatasync", "posix_fadvise", "open"])
def test_a_disk_that_fails(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """It is told, nothing is left over, and it may be tried again."""
    regrouper = regrouper_of(path)
    with failing(monkeypatch, call), pytest.raises(JournalUnavailableError):
        regrouper.step(nothing)
    assert left_over(path) == []
    assert regrouper.step(nothing) is Stage.OFFERED
    regrouper.close()


def test_too_little_room(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is begun that would take the last of a disk from the hub."""
    true = os.statvfs(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: os.statvfs_result((*true[:4], 5, *true[5:])))
        with pytest.raises(JournalUnavailableError, match="less than 64 MiB are free"):
            regrouper_of(path).step(nothing)
    assert left_over(path) == []


def test_giving_up(path: Path) -> None:
    """Who gives up leaves nothing behind."""

    class GivenUpError(Exception):
        pass

    def give_up() -> None:
        raise GivenUpError

    regrouper = regrouper_of(path)
    with pytest.raises(GivenUpError):
        regrouper.step(give_up)
    assert left_over(path) == []


def test_what_a_kill_has_left(path: Path) -> None:
    """The next one deletes it, and so does who takes the folder; other files stay."""
    (path / "30.77.anew.seg.new").write_bytes(b"half")
    (path / "probe.seg.new").write_bytes(b"of somebody else")
    regrouper_of(path).close()
    assert left_over(path) == ["probe.seg.new"]
    (path / "30.77.anew.seg.new").write_bytes(b"half")
    with owned(path):
        assert left_over(path) == []


def test_a_segment_that_vanishes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As retention may have it vanish at any time."""
    regrouper = regrouper_of(path)
    with failing(monkeypatch, "open", error=FileNotFoundError(2, "No such file")):
        assert regrouper.step(nothing) is Stage.SETTLED
    assert regrouper.step(nothing) is Stage.OFFERED
    regrouper.close()
