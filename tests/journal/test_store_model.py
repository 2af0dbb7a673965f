"""A journal against a list: whatever is added, committed, lost, opened again and read in any order, they agree."""

from __future__ import annotations

import resource
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hub.errors import GoneError, JournalUnavailableError
from hub.journal.block import Block
from hub.journal.segment import Write
from hub.messages.batch import Batch
from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from hub.policy.grants import allows_by
from peers.journal import store as store_module
from peers.journal.store import Retention, Store
from peers.journal.view import LARGE_FACTOR, View
from tests.journal.files import AT_US, crashed, opened, records, small_blocks

pytestmark = pytest.mark.slow

TOPICS = ("/a", "/a/b", "/b", "/zeek/dns", "/zeek/conn", "/é")
Grant = tuple[str, bool]
GRANTS: tuple[Grant, ...] = (
    ("*", True),
    ("/a", True),
    ("/a/b", False),
    ("/zeek", True),
    ("/zeek/", True),
    ("/é", True),
)
PREFIXES = ("", "/", "/a", "/a/", "/zeek/", "/zeek/dns", "/x", "/é")


class Model(NamedTuple):
    time_us: int
    topic: str
    encoding: int
    body: bytes


class Message(NamedTuple):
    topic: str
    values: list[Any]
    broker: bool

    def frame(self) -> bytes:
        if self.broker:
            return encode_frame(KIND_MESSAGES, bytes(self.values), key=self.topic.encode(), flags=BROKER_FLAGS)
        return Batch.of(self.topic, self.values).frames

    def models(self, time_us: int) -> list[Model]:
        if self.broker:
            return [Model(time_us, self.topic, 1, bytes(self.values))]
        return [Model(time_us, self.topic, 0, Batch.of("", [value]).frames[8:]) for value in self.values]


messages = st.builds(
    Message,
    st.sampled_from(TOPICS),
    st.lists(st.integers(0, 255), min_size=1, max_size=20),
    st.sampled_from((False, False, False, True)),
) | st.builds(
    Message, st.sampled_from(TOPICS), st.lists(st.binary(max_size=300), min_size=1, max_size=3), st.just(value=False)
)


class StoreAndView(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.patch = small_blocks(pytest.MonkeyPatch(), records=16, size=1500)
        self.patch.__enter__()
        self.held = pytest.MonkeyPatch()
        self.held.setattr(store_module, "_HELD_BYTES", 1_000)  # so that large commits are written ahead
        self.limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.files = 0
        self.now_us = AT_US
        self.committed: list[Model] = []
        self.writes: dict[str, Write] = {}
        self.added: list[Model] = []
        self.first = 0

    @initialize(
        retention=st.sampled_from((Retention(1 << 50, 1 << 60), Retention(4000, 1 << 60), Retention(1 << 50, 50))),
        segment_bytes=st.sampled_from((1 << 30, 1_000)),
        full_sync=st.booleans(),
        compresses=st.booleans(),
    )
    def start(self, retention: Retention, segment_bytes: int, *, full_sync: bool, compresses: bool) -> None:
        self.retention = retention
        self.segment_bytes = segment_bytes
        self.kind = {"full_sync": full_sync, "compresses": compresses}
        self.path = Path(self.folder.name, "0")
        self.store = self.opened()
        self.view = View(str(self.path))

    def opened(self) -> Store:
        return opened(self.path, retention=self.retention, segment_bytes=self.segment_bytes, **self.kind)

    def teardown(self) -> None:
        self.free()
        if hasattr(self, "store"):
            self.view.close()
            self.store.close()
        self.held.undo()
        self.patch.__exit__(None, None, None)
        self.folder.cleanup()

    @rule(
        parts=st.lists(st.lists(messages, min_size=1, max_size=4), min_size=1, max_size=4),
        passed_us=st.integers(-5, 20),
    )
    def add(self, parts: list[list[Message]], passed_us: int) -> None:
        timed = []
        models: list[Model] = []
        for part in parts:
            self.now_us += passed_us
            timed.append((self.now_us, b"".join(message.frame() for message in part)))
            models += [model for message in part for model in message.models(self.now_us)]
        try:
            self.store.add(timed, in_haste=passed_us < 0)
        except JournalUnavailableError:
            self.added = []
        else:
            self.added += models

    @rule(batch=st.integers(0, 3), query=st.sampled_from(("", "q", "r")), passed_us=st.integers(0, 30))
    def commit(self, batch: int, query: str, passed_us: int) -> None:
        self.now_us += passed_us
        write = Write(query, batch, len(self.committed), len(self.committed) + len(self.added))
        try:
            self.store.commit([write] if query else [], now_us=self.now_us)
        except JournalUnavailableError:
            self.added = []
            return
        self.committed += self.added
        self.added = []
        if query:
            self.writes[query] = write
        self.check_retention()
        assert self.store.size_bytes == sum(file.stat().st_size for file in self.path.glob("*.seg"))

    def check_retention(self) -> None:
        assert self.first <= self.store.first <= len(self.committed)
        if self.store.first > self.first and self.retention.bytes > 1 << 40:
            gone = self.committed[self.first : self.store.first]
            assert all(model.time_us < self.now_us - self.retention.age_us for model in gone)
        self.first = self.store.first

    @rule(room=st.integers(0, 200_000))
    def fill_disk(self, room: int) -> None:
        size = max(file.stat().st_size for file in self.path.iterdir())
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, self.limits[1]))

    @rule()
    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self.limits)

    @rule()
    def probe(self) -> None:
        self.added = []
        try:
            self.store.probe()
        except JournalUnavailableError:
            self.free()
            self.store.probe()
        assert {write.query: write for write in self.store.writes} == self.writes

    @rule()
    def reopen(self) -> None:
        self.free()
        self.view.close()
        self.store.close()
        self.go_on(self.path)

    @rule()
    def crash(self) -> None:
        self.free()
        self.files += 1
        path = crashed(self.path, Path(self.folder.name, f"{self.files}"))
        self.view.close()
        self.store.close()
        shutil.rmtree(Path(self.folder.name, f"{self.files - 1}"))
        self.go_on(path)

    def go_on(self, path: Path) -> None:
        self.added = []
        self.path = path
        self.store = self.opened()
        self.view = View(str(path))
        assert (self.store.first, self.store.next) == (self.first, len(self.committed))
        assert {write.query: write for write in self.store.writes} == self.writes

    @precondition(lambda self: self.committed)
    @rule(
        data=st.data(),
        prefixes=st.lists(st.sampled_from(PREFIXES), min_size=1, max_size=3),
        limit=st.sampled_from((1, 300, 5000, 10**6)),
        granted=st.none() | st.lists(st.sampled_from(GRANTS), max_size=3),
    )
    def read(self, data: st.DataObject, prefixes: list[str], limit: int, granted: list[Grant] | None) -> None:
        may_read = None if granted is None else allows_by(granted)
        head = len(self.committed)
        start = data.draw(st.integers(self.first, head))
        end = data.draw(st.none() | st.integers(self.first, head + 5))
        position = start
        found = []
        while True:
            piece = self.view.fetch(position, end, tuple(prefixes), limit, may_read=may_read)
            assert piece.extent == (self.first, head)
            size = sum(map(len, piece.blocks))
            assert size <= (LARGE_FACTOR + 1) * limit or len(records(piece.blocks)) == 1
            found += records(piece.blocks)
            named = {topic for block in piece.blocks for topic in Block.parse(block).topics}
            assert may_read is None or all(map(may_read, named))
            if piece.next == position:
                break
            position = piece.next
        last = head if end is None else min(end, head)
        assert position == max(start, last)
        wanted = [
            (offset, *self.committed[offset])
            for offset in range(start, last)
            if self.committed[offset].topic.startswith(tuple(prefixes))
            and (may_read is None or may_read(self.committed[offset].topic))
        ]
        assert [tuple(record) for record in found] == wanted

    @rule(distance=st.integers(1, 100))
    def read_outside(self, distance: int) -> None:
        for start in (self.first - distance, len(self.committed) + distance):
            if start >= 0:
                with pytest.raises(GoneError) as caught:
                    self.view.fetch(start, None, ("",), 1)
                assert caught.value.first == self.first

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        time_us = data.draw(st.integers(AT_US - 100, self.now_us + 5))
        kept = range(self.first, len(self.committed))
        expected = next((offset for offset in kept if self.committed[offset].time_us >= time_us), len(self.committed))
        assert self.view.offset_at(time_us) == expected

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "store"):
            assert self.store.next == len(self.committed) + len(self.added)
            if not self.added:
                assert self.store.first == self.first


TestStoreAndView = StoreAndView.TestCase
TestStoreAndView.settings = settings(max_examples=settings().max_examples // 3)  # each writes files, several times
