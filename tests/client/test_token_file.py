"""A token from a file: its one line, read each time; and no text that shows it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from hub.errors import UsageError
from peers.client import connect
from peers.client.token_source import read_token
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.token import TOKEN_LIMIT_BYTES
from tests.client.scripted import ScriptedHub

SECRET = "hub_c2VjcmV0"


@pytest.mark.parametrize("content", [SECRET, f"{SECRET}\n", f"  {SECRET} \r\n\n"])
def test_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    assert read_token(str(file)) == SECRET


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        f"{SECRET}\n{SECRET}".encode(),
        SECRET.encode() + b"\xff",
        SECRET.encode() + b"\0",
        SECRET.encode() * TOKEN_LIMIT_BYTES,
    ],
    ids=["empty", "an empty line", "two lines", "not UTF-8", "a NUL", "huge"],
)
def test_no_token(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="holds no token: one line of text is expected") as refused:
        read_token(str(file))
    assert str(file) in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("path", ["/nowhere/token", "/", "a\0b"])
def test_no_file(path: str) -> None:
    with pytest.raises(UsageError, match="cannot be read: "):
        read_token(path)


async def test_it_is_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    async with ScriptedHub() as hub, connect(hub.url, token=partial(read_token, str(file))):
        assert Hello.decode((await hub.next(Kind.HELLO)).body).token == "first"
        file.write_text("second")
        hub.hang_up()
        assert Hello.decode((await hub.next(Kind.HELLO)).body).token == "second"
