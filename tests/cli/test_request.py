"""`hub request` and `hub serve` against a real hub, and each other."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.programs import PATIENCE_S, RunningHub, hub, start


@contextmanager
def serving(running_hub: RunningHub, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run `hub serve` until the block ends; it has been confirmed when the block begins."""
    with start("serve", *arguments, url=running_hub.unix) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"serving /")
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def ask(running_hub: RunningHub, *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    result = hub("request", *arguments, url=running_hub.tcp, stdin=stdin)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def test_echo(running_hub: RunningHub) -> None:
    with serving(running_hub, "/cli/echo", "--exec", "cat"):
        for arguments, reply in (
            (["5"], "5\n"),
            (['{"a": [1, null]}'], '{"a":[1,null]}\n'),
            (["hello"], '"hello"\n'),
            (["5", "--text"], '"5"\n'),
            ([], "null\n"),
        ):
            assert ask(running_hub, "/cli/echo/x", *arguments) == (0, reply, "")
        lines = "".join(f"{number}\n" for number in range(300))
        assert ask(running_hub, "/cli/echo", "-", stdin=lines.encode()) == (0, lines, "")


def test_broken_json_is_sent_with_a_warning_or_refused(running_hub: RunningHub) -> None:
    with serving(running_hub, "/cli/broken", "--exec", "cat"):
        code, reply, warning = ask(running_hub, "/cli/broken", '{"x"')
        assert (code, reply) == (0, '"{\\"x\\""\n')
        assert warning.startswith("hub request: VALUE is sent as text, because it is not valid JSON: ")
        code, reply, error = ask(running_hub, "/cli/broken", '{"x"', "--json")
        assert (code, reply) == (2, "")
        assert error.startswith("hub: VALUE is not valid JSON: ")


def test_a_command_answers(running_hub: RunningHub) -> None:
    command = 'read -r value; case "$HUB_TOPIC" in */text) echo "got $value";; */none) ;; *) echo "[$value, 1]";; esac'
    with serving(running_hub, "/cli/exec/", "/cli/other/", "--exec", command) as process:
        assert ask(running_hub, "/cli/exec/json", '{"a": 1}') == (0, '[{"a":1},1]\n', "")
        assert ask(running_hub, "/cli/other/text", "7") == (0, '"got 7"\n', "")
        assert ask(running_hub, "/cli/exec/none", "7") == (0, "null\n", "")
        process.send_signal(signal.SIGTERM)
        _, account = process.communicate(timeout=PATIENCE_S)
    assert account.decode() == "hub serve: 3 requests, 0 of them failed\n"
    assert process.returncode == 0


def test_a_command_fails(running_hub: RunningHub) -> None:
    command = 'read -r value; if [ "$value" = 1 ]; then echo first >&2; echo "no such thing" >&2; fi; exit 3'
    with serving(running_hub, "/cli/fails", "--exec", command):
        assert ask(running_hub, "/cli/fails", "1") == (1, "", "hub: /cli/fails: no such thing\n")
        assert ask(running_hub, "/cli/fails", "2") == (1, "", "hub: /cli/fails: the command ended with exit code 3\n")
        code, out, complaints = ask(running_hub, "/cli/fails", "-", stdin=b"1\n2\n")
        assert (code, out) == (1, "")
        assert complaints.splitlines() == [
            "hub request: line 1: /cli/fails: no such thing",
            "hub request: line 2: /cli/fails: the command ended with exit code 3",
        ]


def test_what_is_not_answered(running_hub: RunningHub) -> None:
    assert ask(running_hub, "/cli/nobody", "1") == (1, "", "hub: /cli/nobody: no service for this topic\n")
    assert ask(running_hub, "org.example.Nobody", "1", "--service") == (
        1,
        "",
        "hub: org.example.Nobody: no client owns this name\n",
    )
    with serving(running_hub, "/cli/slow", "--exec", "exec sleep 60"):
        code, out, complaint = ask(running_hub, "/cli/slow", "1", "--timeout", "0.05")
        assert (code, out) == (1, "")
        assert "in time" in complaint


def test_limit(running_hub: RunningHub) -> None:
    with serving(running_hub, "/cli/limit", "--exec", "cat", "--limit", "2") as process:
        assert ask(running_hub, "/cli/limit", "1")[0] == 0
        assert json.loads(ask(running_hub, "/cli/limit", '"two"')[1]) == "two"
        assert process.wait(PATIENCE_S) == 0


def test_each_line_that_is_not_answered_is_named(running_hub: RunningHub) -> None:
    done = hub("request", "/cli/nobody", "-", url=running_hub.tcp, stdin=b"1\n\n2\n")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines() == [
        "hub request: line 1: /cli/nobody: no service for this topic",
        "hub request: line 3: /cli/nobody: no service for this topic",
    ]


def test_a_line_that_is_no_text_is_named(running_hub: RunningHub) -> None:
    done = hub("request", "/cli/nobody", "-", url=running_hub.tcp, stdin=b"\xff\n")
    assert (done.returncode, done.stderr) == (1, b"hub: standard input: line 1: not UTF-8 at byte 0\n")
