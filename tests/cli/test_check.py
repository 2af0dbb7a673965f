"""`hub check` against hubs and what is none; `hub check-config`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hub.settings.keys import KEYS
from tests.cli.programs import RunningHub, hub


@contextmanager
def answering(answer: bytes, *, then_close: bool = True) -> Iterator[int]:
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)
                if not then_close:
                    done.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            done.set()
            thread.join()


def found(url: str, *flags: str) -> tuple[int, str]:
    result = hub("check", url, *flags)
    return result.returncode, result.stdout.decode()


@pytest.mark.parametrize("scheme", ["tcp", "unix", "ws", "http"])
def test_a_hub_is_well(running_hub: RunningHub, scheme: str) -> None:
    url = running_hub.ws.replace("ws", "http", 1) if scheme == "http" else getattr(running_hub, scheme)
    result = hub("check", url)
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.startswith(b"ok: ")
    assert result.stdout.endswith(b" ms\n")
    assert result.stdout.count(b"\n") == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1: Connection refused; is a hub running there?"),
        ("unix:///no.sock", "unix:///no.sock: No such file or directory; is a hub running there?"),
        ("localhost", "'localhost': a URL starts with tcp://, tls://, unix://, ws://, wss:// or zeek://"),
    ],
)
def test_no_hub_there_is_critical(url: str, said: str) -> None:
    assert found(url) == (2, f"critical: {said}\n")


def test_the_url_comes_from_the_environment(running_hub: RunningHub) -> None:
    assert running_hub.unix.encode() in hub("check", url=running_hub.unix).stdout
    quiet = hub("check", "--quiet", url=running_hub.unix)
    assert (quiet.returncode, quiet.stdout) == (0, b"")


def test_check_for_programs(running_hub: RunningHub) -> None:
    well = hub("check", "--json", url=running_hub.tcp)
    told = json.loads(well.stdout)
    assert (well.returncode, told["health"], told["url"]) == (0, "ok", running_hub.tcp)
    assert told["ms"] > 0
    assert "answers in" in told["text"]
    gone = hub("check", "unix:///nonexistent/hub.sock", "--json")
    told = json.loads(gone.stdout)
    assert (gone.returncode, told["health"], told["ms"]) == (2, "critical", None)
    assert hub("check", "--json", "--quiet").stderr == b"hub: --json and --quiet exclude each other\n"


def test_a_slow_hub_is_a_warning(running_hub: RunningHub) -> None:
    code, text = found(running_hub.tcp, "--warn-ms", "0")
    assert code == 1
    assert text.startswith("warning: ")
    assert text.endswith(" ms, more than 0 ms\n")


@pytest.mark.parametrize("scheme", ["tcp", "ws"])
def test_silence_is_critical(scheme: str) -> None:
    with answering(b"", then_close=False) as port:
        said = f"critical: {scheme}://127.0.0.1:{port}: no answer within 0.05 s\n"
        assert found(f"{scheme}://127.0.0.1:{port}", "--timeout", "0.05") == (2, said)


@pytest.mark.parametrize(
    ("scheme", "answer", "reason"),
    [
        ("tcp", b"", "closed before HELLO"),
        ("tcp", b"HTTP/1.1 400 Bad Request\r\n\r\n", "limit"),
        ("tcp", bytes.fromhex("0000000b 0a 00 0000 03f5") + b"no room..", "no room.. (1013)"),
        ("tcp", bytes.fromhex("00000007 0a 00 0000 03f5") + b"\x1b[31m", "\\u001b[31m (1013)"),
        ("ws", b"", "the answer is not HTTP"),
        ("ws", b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP"),
        ("ws", b"HTTP/1.1 503 Service Unavailable\r\n\r\nstopping", "GET /readyz: '503 Service Unavailable'"),
    ],
)
def test_another_answer_is_critical(scheme: str, answer: bytes, reason: str) -> None:
    with answering(answer) as port:
        code, text = found(f"{scheme}://127.0.0.1:{port}")
    assert code == 2
    assert reason in text
    assert text.count("\n") == 1


def test_each_setting_is_an_object(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text("[queue]\nmessages = 17\n")
    done = hub("check-config", "--config", str(file), "--queue-bytes", "1MiB", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    found = {one["setting"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert found.keys() == KEYS.keys()
    assert (found["queue.messages"]["value"], found["queue.messages"]["unit"]) == (17, "messages")
    assert str(file) in found["queue.messages"]["from"]
    assert found["queue.bytes"]["value"] == 1 << 20
    assert found["limits.routes"]["from"] == "default"
    file.write_text("[queue]\nmessages = 0\n")
    assert hub("check-config", "--config", str(file), "--json").returncode == 1
