"""`hub store` against a real hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from peers.client.blocking import connect
from peers.client.values import encode_value
from peers.values import Count, Set
from tests.cli.programs import PATIENCE_S, PROJECT, RunningHub, hub, run_hub, run_shell, start


@pytest.fixture(scope="module")
def storing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    names = ("status", "single", "tables", "watched", "from", "into", "bad", "refusing", "progress")
    with run_hub(tmp_path_factory.mktemp("hub"), *(f"--store={name}=:memory:" for name in names)) as running:
        yield running


def store(running: RunningHub, *arguments: str, stdin: bytes = b"") -> str:
    result = hub("store", *arguments, url=running.tcp, stdin=stdin)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


def refused(running: RunningHub, *arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    """The exit code of a command that does not succeed, and what it complains of."""
    result = hub("store", *arguments, url=running.tcp, stdin=stdin)
    return result.returncode, result.stderr.decode()


def test_one_entry(storing: RunningHub) -> None:
    version = store(storing, "put", "single", "sensor-7", '{"state": "up"}').strip()
    assert store(storing, "get", "single", "sensor-7") == '{"state":"up"}\n'
    assert json.loads(store(storing, "get", "single", "sensor-7", "--json")) == {
        "key": "sensor-7",
        "value": {"state": "up"},
        "version": int(version),
        "expires": None,
    }
    newer = store(storing, "put", "single", "sensor-7", "down", "--if-version", version).strip()
    assert refused(storing, "put", "single", "sensor-7", "up", "--if-version", version) == (
        1,
        f"hub store put: sensor-7 is unchanged: it has version {newer}; read it again, and give that to --if-version\n",
    )
    assert store(storing, "erase", "single", "sensor-7") == ""
    nothing = "the store single has no entry sensor-7; `hub store ls single` lists them\n"
    assert refused(storing, "erase", "single", "sensor-7") == (1, f"hub store erase: {nothing}")
    assert refused(storing, "get", "single", "sensor-7") == (1, f"hub store get: {nothing}")


def test_keys_are_json_or_text(storing: RunningHub) -> None:
    store(storing, "put", "single", "7", "-1")
    store(storing, "put", "single", "7", "-1", "--text")
    assert store(storing, "get", "single", "7") == "-1\n"
    assert store(storing, "get", "single", "7", "--text") == '"-1"\n'


def test_an_entry_expires(storing: RunningHub) -> None:
    before = datetime.now(UTC)
    store(storing, "put", "single", "short", "1", "--expires", "3600")
    expires = datetime.fromisoformat(json.loads(store(storing, "get", "single", "short", "--json"))["expires"])
    assert before < expires <= datetime.now(UTC) + timedelta(seconds=3601)
    assert refused(storing, "put", "single", "short", "1", "--expires", "0")[0] == 2
    assert refused(storing, "put", "single", "short", "1", "--if-version", "-1")[0] == 2


def test_tables(storing: RunningHub) -> None:
    store(storing, "put", "tables", "b", "[1, 2]")
    store(storing, "put", "tables", "a\x1b", '"text"')
    lines = store(storing, "ls").splitlines()
    assert lines[0].split() == ["store", "entries", "KiB", "expiring", "changes", "commands", "reads", "refused"]
    (row,) = [line.split() for line in lines if line.startswith("tables ")]
    assert (row[1], row[3], row[4]) == ("2", "0", "2")
    assert float(row[2]) > 0
    assert "tables" in {json.loads(line)["name"] for line in store(storing, "ls", "--json").splitlines()}
    head, first, second = store(storing, "ls", "tables").splitlines()
    assert head.split("  ")[0] == "key"
    assert first.split()[:2] == [r"a\u001b", "text"]
    assert second.split()[:2] == ["b", "[1,2]"]
    assert [json.loads(line)["key"] for line in store(storing, "ls", "tables", "b", "--json").splitlines()] == ["b"]


def test_watch(storing: RunningHub) -> None:
    version = int(store(storing, "put", "watched", "a", "1"))
    process = start("store", "watch", "watched", "--limit", "4", url=storing.tcp)
    assert process.stdout is not None
    assert process.stdout.readline() == f"{version} present a 1\n".encode()
    store(storing, "put", "watched", "a", "2")
    store(storing, "erase", "watched", "a")
    store(storing, "put", "watched", "b", "3")
    rest, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, b"")
    assert rest.decode().splitlines() == [
        f"{version + 1} put     a 2",
        f"{version + 2} erase   a",
        f"{version + 3} put     b 3",
    ]
    result = hub("store", "watch", "watched", "--format", "json", "--limit", "9", "--timeout", "0.2", url=storing.tcp)
    assert result.returncode == 2
    (change,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (change["kind"], change["key"], change["value"], change["present"]) == ("put", "b", 3, True)


def test_export_and_import(storing: RunningHub) -> None:
    with connect(storing.unix) as client:
        for key, value in (("a", Count(1)), (Set([1, 2]), b"\x00"), (1.5, {"deep": [None, True]})):
            client.request("$store/from/write", ["put", *map(encode_value, (key, value))])
    store(storing, "put", "from", "short", "1", "--expires", "3600")
    lines = store(storing, "export", "from")
    over = b'{"key": "over", "value": 1, "expires": "2020-01-01T00:00:00Z"}\n\n'
    assert store(storing, "import", "into", "-", stdin=lines.encode() + over) == (
        "4 put into into; the time of 1 other was over\n"
    )
    with connect(storing.unix) as client:
        pages = [client.request(f"$store/{name}/read", ["rows", "", True])[4] for name in ("from", "into")]
    assert {row[0]: row[1] for row in pages[0]} == {row[0]: row[1] for row in pages[1]}
    assert sum(row[3] is not None for row in pages[1]) == 1
    assert len(store(storing, "export", "from", "--prefix", "a").splitlines()) == 1


def test_lines_that_hold_no_entry(storing: RunningHub, tmp_path: Path) -> None:
    for line in (b'{"value": 1}', b"[1]", b'{"key": 1, "value": 2, "key_msgpack": "!"}', b"{"):
        code, said = refused(storing, "import", "bad", "-", stdin=b'{"key": 1, "value": 1}\n' + line)
        assert code == 1
        assert "standard input: line 2: no entry such as" in said
    assert store(storing, "ls", "bad", "--json").count("\n") == 1  # what stands before it was put
    assert refused(storing, "import", "bad", str(tmp_path / "none"))[0] == 1


def test_lines_that_are_not_put(storing: RunningHub) -> None:
    fine = b"".join(b'{"key": %d, "value": 1}\n' % number for number in range(2_500))
    for line, reason in (
        (json.dumps({"key": "large", "value": "x" * 600_000}).encode(), "the limit is 524288"),
        (b'{"key": 1, "value": %d}' % 2**70, "int"),
    ):
        result = hub("store", "import", "refusing", "-", url=storing.tcp, stdin=fine + b"\n" + line + b"\n" + fine)
        assert result.returncode == 1
        assert f"standard input: line {2_502}: " in result.stderr.decode()
        assert reason in result.stderr.decode()
        assert len(result.stderr.splitlines()) == 1
        put = int(result.stdout.decode().split()[0].replace(",", ""))
        assert put >= 2_500
        keys = {json.loads(each)["key"] for each in store(storing, "ls", "refusing", "--json").splitlines()}
        assert keys == set(range(2_500))


def test_no_store(storing: RunningHub) -> None:
    code, said = refused(storing, "get", "none", "a")
    assert code == 1
    assert "no hub of the mesh has a store 'none'; `hub run --store none=:memory:` has one" in said


(EXAMPLES,) = re.findall(
    r"^<!-- runs -->\n```sh\n(.*?)^```$", (PROJECT / "docs" / "stores.md").read_text(), re.MULTILINE | re.DOTALL
)


@pytest.mark.parametrize("page", ["stores", "command-line"])
def test_examples_of_the_documents(storing: RunningHub, tmp_path: Path, page: str) -> None:
    block = EXAMPLES
    if page == "command-line":
        text = (PROJECT / "docs" / "command-line.md").read_text()
        (block,) = re.findall(r"^### hub store$.*?^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        block = "".join(f"{line}{' --limit 1' * (' watch ' in line)}\n" for line in block.splitlines())
    run_shell(block, tmp_path, HUB_URL=storing.tcp)
