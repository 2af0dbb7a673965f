"""Logs: the two forms, what passes, the limit on the rate; and a log that nobody reads, or that cannot be written."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import logging
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from hub.limits import Overflow
from hub.settings.settings import LogSettings
from peers.daemon.logs import OutputQueue, RateLimit, configure, report_suppressed
from tests.forked.servers import python_path

HOSTILE = "\x1b[31m\r\n2026-01-01 00:00:00 [info     ] forged\x00\u202e\u2028\x9b\ud800"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _global_state() -> Iterator[None]:
    names = ("", "hub", "peers")
    levels = {name: logging.getLogger(name).level for name in names}
    yield
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if handler.get_name() == "topichub"]:
        root.removeHandler(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    structlog.reset_defaults()


def logger(name: str = "peers.test") -> structlog.stdlib.BoundLogger:
    log: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return log


@contextmanager
def own_handlers() -> Iterator[None]:
    root = logging.getLogger()
    others = list(root.handlers)
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = others


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def logged(**fields: object) -> dict[str, Any]:
    stream = io.StringIO()
    with own_handlers():
        configure(LogSettings(format="json"), stream)
        logger().info("event", **fields)
    (line,) = json_lines(stream)
    return line


def raised(text: str) -> ValueError:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 -- the text is hostile
        raise ValueError(text)
    return caught.value


def shown(**fields: object) -> str:
    stream = io.StringIO()
    with own_handlers():
        configure(LogSettings(format="text"), stream)
        logger().info("event", **fields)
    text = stream.getvalue()
    assert text.endswith("\n")
    return text[:-1]


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [
        ("auto", Terminal(), False),
        ("auto", io.StringIO(), True),
        ("text", io.StringIO(), False),
        ("json", Terminal(), True),
    ],
    ids=["auto on a terminal", "auto elsewhere", "text", "json"],
)
def test_forms(form: Any, stream: io.StringIO, *, is_json: bool) -> None:
    configure(LogSettings(format=form), stream)
    logger().info("connected", peer="tcp://h:1")
    assert stream.getvalue().startswith("{") is is_json


def test_json_line() -> None:
    line = logged(peer="tcp://h:1", tries=3)
    assert list(line) == ["timestamp", "level", "event", "logger", "peer", "tries"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    assert line == {"level": "info", "event": "event", "logger": "peers.test", "peer": "tcp://h:1", "tries": 3}


def test_text_line() -> None:
    text = shown(peer="tcp://h:1", tries=3, reason="it left", empty="", policy=Overflow.DROP_OLDEST, ratio=0.5)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[info +\] event +logger=peers.test peer=tcp://h:1 tries=3"
        r" reason='it left' empty='' policy=drop-oldest ratio=0.5",
        text,
    )


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(level: Any, expected: list[str]) -> None:
    for name in ("hub.core", "peers.connections"):
        stream = io.StringIO()
        configure(LogSettings(level=level, format="json"), stream)
        log = logger(name)
        log.debug("a")
        log.info("b")
        log.warning("c")
        log.error("d")
        assert [line["level"] for line in json_lines(stream)] == expected


def test_configure_again_replaces() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure(LogSettings(level="info", format="json"), first)
    log = logger().bind(client="c")
    log.info("one")
    configure(LogSettings(level="warning", format="text"), second)
    log.info("two")
    log.warning("three")
    assert [line["event"] for line in json_lines(first)] == ["one"]
    assert second.getvalue().count("\n") == 1
    assert "three" in second.getvalue()


async def test_asyncio_errors_are_logged() -> None:
    stream = io.StringIO()
    configure(LogSettings(format="json"), stream)
    asyncio.get_running_loop().call_exception_handler({"message": "oh", "exception": ValueError("lost")})
    (line,) = json_lines(stream)
    assert line["logger"] == "asyncio"
    assert line["event"].startswith("oh")
    assert "ValueError: lost" in line["exception"]


def test_hostile_values_in_text() -> None:
    stream = io.StringIO()
    configure(LogSettings(format="text"), stream)
    logger().warning(HOSTILE, value=HOSTILE, nested=[{HOSTILE: (HOSTILE,)}], raw=HOSTILE.encode("utf-8", "replace"))
    logger().warning("event", **{HOSTILE: 1})
    logging.getLogger("asyncio").error("odd %s", HOSTILE)
    lines = stream.getvalue().split("\n")
    assert len(lines) == 4
    assert all(line.isprintable() for line in lines)


def test_hostile_exception_in_text() -> None:
    stream = io.StringIO()
    configure(LogSettings(format="text"), stream)
    logger().error("failed", exc_info=raised(HOSTILE))
    first, *rest, last = stream.getvalue().split("\n")
    assert "failed" in first
    assert "Traceback (most recent call last):" in rest[0]
    assert any("forged" in line for line in rest)
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert last == ""


def test_hostile_values_in_json() -> None:
    stream = io.StringIO()
    configure(LogSettings(format="json"), stream)
    logger().warning(HOSTILE, value=HOSTILE)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text[:-1].isascii()
    assert text[:-1].isprintable()
    assert json.loads(text)["event"] == json.loads(text)["value"] == HOSTILE


@pytest.mark.parametrize(
    "value",
    [
        "x" * 1_000_000,
        b"\x00" * 1_000_000,
        1 << 1_000_000,
        ["x" * 2000] * 1000,
        {str(number): "x" * 2000 for number in range(1000)},
        [[[[[[["deep"] * 100] * 100] * 100] * 100]]],
    ],
    ids=["text", "bytes", "number", "list", "map", "deep"],
)
def test_long_values_are_shortened(value: object) -> None:
    for text in (shown(value=value), json.dumps(logged(value=value))):
        assert len(text) < 6_000
        assert "..." in text


def test_long_event_and_traceback_are_shortened() -> None:
    for form in ("text", "json"):
        stream = io.StringIO()
        configure(LogSettings(format=form), stream)
        logging.getLogger("asyncio").error("x" * 1_000_000, exc_info=ValueError("y" * 1_000_000))
        assert len(stream.getvalue()) < 40_000
        assert "characters left out" in stream.getvalue()


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,5}_x", fullmatch=True),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
            lambda inner: (
                st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
            ),
        ),
    )
)
def test_any_fields_make_one_line(fields: dict[str, Any]) -> None:
    assert shown(**fields).isprintable()
    assert set(fields) < set(logged(**fields))


def test_rate_limit_of_one_event() -> None:
    limit = RateLimit(lines_per_s=2, burst_lines=3)
    assert [limit.admit("a", 10.0) for _ in range(5)] == [0, 0, 0, None, None]
    assert limit.admit("a", 10.4) is None
    assert limit.admit("a", 10.5) == 3
    assert limit.admit("a", 10.5) is None
    assert limit.admit("a", 11.0) == 1
    assert limit.suppressed_lines == 4


def test_rate_limit_is_bounded_in_events() -> None:
    limit = RateLimit(lines_per_s=1, burst_lines=1, names=2)
    assert [limit.admit(name, 0.0) for name in ("a", "b", "c", "d", "e")] == [0, 0, 0, None, None]
    assert limit.take_suppressed(0.0) == {"(other events)": 2}
    assert limit.take_suppressed(100.0) == {}
    assert [limit.admit(name, 100.0) for name in ("d", "e")] == [0, 0]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 0.5)), max_size=60))
def test_no_line_is_lost_uncounted(steps: list[tuple[str, float]]) -> None:
    limit = RateLimit(lines_per_s=3, burst_lines=2, names=3)
    now_s, admitted, told = 0.0, 0, 0
    for event, passed_s in steps:
        now_s += passed_s
        answer = limit.admit(event, now_s)
        if answer is not None:
            admitted += 1
            told += answer
        if event == "d":
            told += sum(limit.take_suppressed(now_s).values())
    told += sum(limit.take_suppressed(now_s).values())
    assert admitted + told == len(steps)
    assert limit.suppressed_lines == told


def test_storm_in_the_log() -> None:
    stream, now_s = io.StringIO(), 0.0
    limit = configure(LogSettings(format="json"), stream, RateLimit(1, 2), lambda: now_s)
    for number in range(5):
        logger().info("storm", number=number)
    now_s = 1.0
    logger().info("storm", number=5)
    logger().info("storm", number=6)
    report_suppressed(limit, now_s)
    report_suppressed(limit, now_s)
    lines = json_lines(stream)
    assert [line.get("number") for line in lines] == [0, 1, 5, None]
    assert [line.get("suppressed") for line in lines] == [None, None, 3, None]
    assert (lines[3]["level"], lines[3]["lines"], lines[3]["events"]) == ("warning", 1, {"storm": 1})


PIPE_BYTES = 4096  # What the smallest pipe takes
LIMIT_BYTES = 32 * 1024


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
    assert statistics.trouble == "the log is not read"
    found = pipe.read_until("missing\n").splitlines()
    assert found == [f"{number:<99}" for number in range(lines - 1)] + ["6 missing"]
    until(lambda: not queue.statistics().trouble)
    queue.write("behind\n")
    assert pipe.read_until("behind\n") == "behind\n"
    until(lambda: not queue.statistics().queued_bytes)
    assert queue.statistics().dropped_lines_total == 6


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


_ENDS = """
import sys
from peers.daemon.logs import queue_output
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
