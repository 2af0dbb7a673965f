"""The commands of docs/zeekctl.md: each `hub run` starts, on free ports, with keys in the form of zeekctl's files."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.daemon.conftest import StartProcess
from tests.daemon.hub_process import ROOT

COMMANDS = re.findall(r"^hub run .*$", (ROOT / "docs" / "zeekctl.md").read_text(), re.MULTILINE)

KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7\n"
"""A key of 32 bytes in Z85, as ZeroMQ's specification of Z85 and CURVE has one, and a newline."""


@pytest.mark.parametrize("line", COMMANDS)
async def test_commands_start(line: str, start_process: StartProcess, tmp_path: Path) -> None:
    curve = tmp_path / "spool" / "zeromq" / "curve"
    curve.mkdir(parents=True)
    for name in ("server_secretkey", "client_publickey"):
        (curve / name).write_text(KEY)
        (curve / name).chmod(0o600)
    line = line.replace("/opt/zeek", str(tmp_path)).replace("192.0.2.1", "127.0.0.1")
    line = re.sub(r"(--listen '?[a-z+]+://127\.0\.0\.1):\d+(\?xsub=)?\d*", lambda one: f"{one[1]}:0", line)
    words = shlex.split(line)[2:]
    hub = await start_process(*words)
    await hub.wait_up(words.count("--listen"))
