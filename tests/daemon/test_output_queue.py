"""`OutputQueue`: whoever writes never waits; what has no room is dropped, counted and told where it would stand."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest

from peers.daemon.output_queue import OutputQueue
from tests.suite.imports import python_path

PIPE_BYTES = 4096  # What the smallest pipe takes

LIMIT_BYTES = 32 * 1024
LINE = "x" * 99 + "\n"


class Pipe:
    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.stream: TextIO = os.fdopen(writer, "w")

    def read(self) -> str:
        return os.read(self.reader, 1 << 20).decode()

    def read_until(self, text: str) -> str:
        found = ""
        while text not in found:
            found += self.read()
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.stream.close()
    os.close(pipe.reader)


@pytest.fixture
def queue(pipe: Pipe) -> Iterator[OutputQueue]:
    queue = OutputQueue(pipe.stream)
    queue.adopt(LIMIT_BYTES, lambda lines: f"{lines} missing")
    yield queue
    while queue.statistics().queued_bytes:  # else its thread writes to who has this descriptor next
        if select.select([pipe.reader], [], [], 0.001)[0]:
            pipe.read()


def until(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.001)


def fill(queue: OutputQueue) -> int:
    lines = 0
    while not queue.statistics().dropped_lines_total:
        queue.write(f"{lines:<99}\n")
        lines += 1
    return lines


def test_lines_come_as_they_were_written(queue: OutputQueue, pipe: Pipe) -> None:
    for number in range(20):
        print(number, "\u00e9\udcff", file=queue)
    found = pipe.read_until("19 ")
    assert found == "".join(f"{number} \u00e9\\udcff\n" for number in range(20))


def test_lines_are_dropped_while_nobody_reads(queue: OutputQueue, pipe: Pipe) -> None:
    lines = fill(queue)
    for _ in range(5):
        queue.write("dropped\n")
    statistics = queue.statistics()
    assert statistics.dropped_lines_total == 6
    assert statistics.queued_bytes <= LIMIT_BYTES
    assert statistics.trouble == "nobody reads the log"
    found = pipe.read_until("missing\n").splitlines()
    assert found == [f"{number:<99}" for number in range(lines - 1)] + ["6 missing"]
    until(lambda: not queue.statistics().trouble)
    queue.write("behind\n")
    assert pipe.read_until("behind\n") == "behind\n"
    until(lambda: not queue.statistics().queued_bytes)
    assert queue.statistics().dropped_lines_total == 6


def test_nothing_is_taken_before_half_of_the_room_is_free(queue: OutputQueue, pipe: Pipe) -> None:
    fill(queue)
    found = ""
    while queue.statistics().queued_bytes > LIMIT_BYTES // 2:
        assert "missing" not in found
        before = queue.statistics()
        if before.queued_bytes > LIMIT_BYTES // 2 + PIPE_BYTES:  # the thread may have written as much meanwhile
            queue.write("also dropped\n")
            assert queue.statistics().dropped_lines_total > before.dropped_lines_total
        found += os.read(pipe.reader, 100).decode()
    assert pipe.read_until("missing\n").count("missing") == 1


def test_pieces_of_a_line_stay_together(queue: OutputQueue, pipe: Pipe) -> None:
    queue.write("a")
    queue.write("b")
    queue.flush()
    assert queue.statistics().queued_bytes == 0
    queue.write("c\nd\ne")
    assert pipe.read_until("d\n") == "abc\nd\n"
    assert queue.end()
    assert pipe.read() == "e\n"


def test_a_line_may_be_longer_than_the_queue(queue: OutputQueue, pipe: Pipe) -> None:
    queue.write("z" * 32_768 + "\n")
    assert pipe.read_until("\n") == "z" * 32_768 + "\n"
    assert queue.statistics().dropped_lines_total == 0


def test_a_full_disk_keeps_what_it_does_not_take(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as stream, (tmp_path / "log").open("w") as file:
        queue = OutputQueue(stream)
        queue.write("first\n")
        until(lambda: queue.statistics().trouble)
        assert queue.statistics().trouble == "the log cannot be written: No space left on device"
        queue.write("second\n")
        os.dup2(file.fileno(), stream.fileno())
        until(lambda: not queue.statistics().queued_bytes)
        assert queue.statistics().trouble == ""
        assert Path(file.name).read_text() == "first\nsecond\n"


def test_the_end_does_not_wait_for_ever(queue: OutputQueue, pipe: Pipe) -> None:  # noqa: ARG001 -- nobody reads it
    fill(queue)
    assert not queue.end()
    with Path("/dev/full").open("w") as stream:
        full = OutputQueue(stream)
        full.write("first\n")
        until(lambda: full.statistics().trouble)
        assert full.end()


def test_a_pipe_that_does_not_let_wait(pipe: Pipe) -> None:
    os.set_blocking(pipe.stream.fileno(), False)
    queue = OutputQueue(pipe.stream)
    for _ in range(100):
        queue.write(LINE)
    found = ""
    while len(found) < 100 * len(LINE):
        found += pipe.read()
    assert found == LINE * 100


_ENDS = """
import sys
from peers.daemon.output_queue import queue_output
queue = queue_output()
print("announced")
for number in range(100):
    print("a line before the end", number, file=sys.stderr)
raise ValueError("the reason of the end")
"""


def test_a_traceback_is_the_last_that_is_said() -> None:
    command = [sys.executable, "-c", _ENDS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | python_path())
    assert (done.returncode, done.stdout) == (1, "announced\n")
    said = done.stderr.splitlines()
    assert said[:100] == [f"a line before the end {number}" for number in range(100)]
    assert said[100].startswith("Traceback")
    assert said[-1] == "ValueError: the reason of the end"
