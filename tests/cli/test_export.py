"""`hub journal export`."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest

from hub.messages.frame import BROKER_FLAGS, KIND_MESSAGES, encode_frame
from peers.journal.store import Retention
from peers.values import encode, value_of
from peers.values.conversion import json_of
from tests.cli.journals import AT_US, commit, complaint, fill, lines, opened, run
from tests.cli.programs import PATIENCE_S, hub, interpreted, on_terminal, plain, screen


def test_export_as_json(full: Path) -> None:
    rows = lines("export", full)
    assert [row["offset"] for row in rows] == [*range(40961)]
    assert rows[0] == {"offset": 0, "time": "2023-11-14T22:13:20.000000Z", "topic": "/t/0", "value": 0}
    assert {(row["topic"], row["value"] % 8192 % 3) for row in rows[:-1]} == {("/t/0", 0), ("/t/1", 1), ("/t/2", 2)}
    assert rows[-1]["value"] == "last"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--start", "40958"], [40958, 40959, 40960]),
        (["--end", "2"], [0, 1]),
        (["--start", "8190", "--end", "8194"], [8190, 8191, 8192, 8193]),
        (["--start", "7", "--end", "7"], []),
        (["--start", "2023-11-14T22:13:25Z"], [40960]),
        (["--start", "2023-11-14 23:14:20+01:00"], [40960]),
        (["--start", "2023-11-15"], []),
        (["--end", "2020-01-01"], []),
        (["--start", "40957", "--end", "2023-11-14T22:14:20"], [40957, 40958, 40959]),
        (["--end", "99999", "--prefix", "/e"], [40960]),
        (["--prefix", "/t/1", "--prefix", "/end", "--start", "40957"], [40960]),
    ],
)
def test_export_of_a_range(full: Path, flags: list[str], expected: list[int]) -> None:
    assert [row["offset"] for row in lines("export", full, *flags)] == expected


def test_export_to_a_file(full: Path, tmp_path: Path) -> None:
    """The file has what standard output would have had, which has the sum."""
    to = tmp_path / "out.ndjson"
    to.write_text("something longer, of old\n" * 100_000)
    said = run("export", full, "-o", to)
    assert said.startswith("exported 40,961 records in ")
    assert to.read_text() == run("export", full)


VALUES: list[Any] = [
    None,
    -(2**63),
    1.5,
    float("nan"),
    b"bytes",
    {1: "number"},
    {None: "nil", True: [{(1, 2): "pair"}]},
    msgspec.msgpack.Ext(5, b"\x00"),
    msgpack.Timestamp(1_700_000_000, 5),
    "\x1b]0;\u202e\x85" * 2,
    "x" * 300_000,
]


def packed(value: Any) -> bytes:
    return msgspec.msgpack.encode(value) if isinstance(value, msgspec.msgpack.Ext) else bytes(msgpack.packb(value))


def single(topic: str, body: bytes, flags: int = 0) -> bytes:
    return encode_frame(KIND_MESSAGES, body, key=topic.encode(), flags=flags)


def record(path: Path, frames: bytes) -> None:
    store = opened(path)
    store.add([(AT_US, frames)])
    store.commit(now_us=AT_US)
    store.close()


@pytest.mark.parametrize("together", [True, False])
def test_values_are_what_a_websocket_would_get(path: Path, *, together: bool) -> None:
    broken = b"" if together else single("/broken", b"\xc1")
    values = [value for value in VALUES if not isinstance(value, msgspec.msgpack.Ext)]
    values = [value for value in values if not together or not isinstance(value, dict) or None not in value]
    record(path, b"".join(single("/v", packed(value)) for value in values) + broken)
    result = hub("journal", "export", str(path), "--prefix", "/" if not together else "/v")
    texts = [line.partition(b'"value":')[2][:-1] for line in result.stdout.splitlines() if b'"/v"' in line]
    assert texts == [json_of(packed(value)) for value in values]


def test_values_without_a_form_are_marked_and_counted(path: Path) -> None:
    bodies = [b"\xc1", b"\x01\x02", b"", b"\xa1\xff", b"\xc7\x01\x63x"]
    record(path, b"".join(single("/bad", body) for body in bodies) + single("/good", b"\x07"))
    result = hub("journal", "export", str(path))
    assert result.returncode == 0
    assert result.stderr == b"hub journal export: 5 values have no such form: they are marked `bad`\n"
    *bad, good = [json.loads(line) for line in result.stdout.splitlines()]
    assert good == {"offset": 5, "time": "2023-11-14T22:13:20.000000Z", "topic": "/good", "value": 7}
    assert [base64.b64decode(one["body"]) for one in bad] == bodies
    assert [one["offset"] for one in bad] == [*range(5)]
    assert all(one["bad"].startswith("not msgpack: ") for one in bad[:4])
    assert "foreign extension" in bad[4]["bad"]
    assert not any("value" in one for one in bad)


def test_zeek_values_are_converted(path: Path) -> None:
    body = encode(value_of({"a": 1}))
    record(path, single("/zeek", bytes(body), BROKER_FLAGS) + single("/zeek", b"\xff", BROKER_FLAGS))
    good, bad = map(json.loads, hub("journal", "export", str(path)).stdout.splitlines())
    assert good["value"] is not None
    assert bad["bad"].startswith("not a Zeek value: ")


def test_what_is_deleted_meanwhile_is_told(path: Path) -> None:
    store = opened(path)
    fill(store, 20)  # more than is read at once
    store.close()
    process = interpreted("journal", "export", str(path), stdout=subprocess.PIPE)
    assert process.stdout is not None
    begun = os.read(process.stdout.fileno(), 1)
    store = opened(path, Retention(bytes=1, age_us=1 << 60))
    total = store.next
    commit(store, ("/late", 1))
    commit(store, ("/late", 2))
    store.close()
    out, error = process.communicate(timeout=PATIENCE_S)
    offsets = [json.loads(line)["offset"] for line in (begun + out).splitlines()]
    assert offsets == sorted(set(offsets))
    missing = total - len(offsets)
    assert missing > 0
    assert error.decode() == (
        f"hub journal export: the hub deleted {missing:,} records, of all topics, before they were read\n"
    )
    assert process.returncode == 1


def test_ctrl_c_ends_behind_a_whole_line(full: Path) -> None:
    process = interpreted("journal", "export", str(full), stdout=subprocess.PIPE)
    assert process.stdout is not None
    begun = os.read(process.stdout.fileno(), 1)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=PATIENCE_S)
    written = begun + out
    assert written.endswith(b"\n")
    assert 0 < written.count(b"\n") < 40961
    assert [json.loads(line)["offset"] for line in written.splitlines()] == [*range(written.count(b"\n"))]
    assert (process.returncode, error) == (130, b"")


def test_a_bar_shows_how_far_it_is(full: Path, tmp_path: Path) -> None:
    process, terminal = on_terminal("journal", "export", str(full), "-o", str(tmp_path / "out"), url="")
    shown = screen(terminal)
    assert process.wait(PATIENCE_S) == 0
    assert "records" in shown
    assert "exported 40,961 records" in shown
    process, terminal = on_terminal("journal", "verify", str(full), url="")
    assert "sound: 40,961 records" in plain(screen(terminal))
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("flags", "code", "reason"),
    [
        (["--start", "yesterday"], 2, "--start 'yesterday': give an offset, or a time such as 2026-11-21T12:00:00Z"),
        (["--end", "-1"], 2, "--end '-1': give an offset, or a time"),
        (["--start", "40962"], 1, "--start 40962: the journal has offsets 0 to 40960"),
        (["--start", "9", "--end", "8"], 2, "--end 8: that is before --start"),
        (["--prefix", "\x01"], 2, "control character U+0001"),
        (["-o", "/no/such/folder/file"], 1, "/no/such/folder/file: No such file or directory"),
        (["-o", "/dev/full"], 1, "/dev/full: No space left on device"),
    ],
)
def test_mistakes_of_export_are_one_line(full: Path, flags: list[str], code: int, reason: str) -> None:
    if flags[-1] == "/dev/full":
        result = hub("journal", "export", str(full), *flags)
        assert (result.returncode, result.stderr.decode()) == (code, f"hub: {reason}\n")
    else:
        assert reason in complaint("export", full, *flags, code=code)


def test_deleted_offsets_are_a_mistake(full: Path) -> None:
    store = opened(full, Retention(bytes=1, age_us=1 << 60))
    commit(store, ("/late", 1))
    commit(store, ("/late", 2))
    first = store.first
    store.close()
    assert first == 40962
    assert f"--start 0: the journal has offsets {first} to 40962" in complaint("export", full, "--start", "0")


def test_the_journal_is_never_written_over(full: Path, tmp_path: Path) -> None:
    (segment,) = full.iterdir()
    to_folder, to_segment, same = tmp_path / "folder", tmp_path / "segment", tmp_path / "same"
    to_folder.symlink_to(full)
    to_segment.symlink_to(segment)
    same.hardlink_to(segment)
    for target in (segment, full / "new.ndjson", to_folder / segment.name, to_folder / "new", to_segment, same):
        assert "that is a file of the journal" in complaint("export", full, "-o", target)
    assert list(full.iterdir()) == [segment]
    assert run("verify", full).startswith("sound: ")
