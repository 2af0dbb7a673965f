"""What is installed for those who want a part of it only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""

CLI = {"cyclopts", "rich"}
SERVER = {"apsw", "backports", "cryptography", "jwt", "prometheus_client", "structlog"}
OTHERS = {"numpy", "pandas", "pyarrow", "pyspark", "uvloop"}


def run_without(names: set[str], program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKED.format(names=names) + program, *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_client_needs_no_package_of_the_hub_or_the_command_line() -> None:
    done = run_without(CLI | SERVER | OTHERS, "import peers.client, peers.client.blocking")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", ["pub", "sub", "request", "serve", "names", "top", "check"])
def test_commands_that_talk_to_a_hub_need_no_package_of_the_hub(command: str) -> None:
    program = f"from peers.cli import main; sys.argv = ['hub', {command!r}, '--help']; main()"
    done = run_without(SERVER | OTHERS, program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("absent", "command", "extra"),
    [
        (CLI, "pub", "cli"),
        (SERVER, "run", "server"),
        (SERVER, "journal verify x", "server"),
        (OTHERS, "journal tier verify x", "tier"),
    ],
)
def test_a_command_whose_packages_are_absent_says_what_to_install(absent: set[str], command: str, extra: str) -> None:
    program = f"from peers.cli import main; sys.argv = ['hub', *{command!r}.split()]; main()"
    done = run_without(absent, program)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"pip install '.[{extra}]'" in done.stderr


def test_a_policy_and_tokens_need_no_package_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[users]\nalice = []\n")
    for command in (
        f"policy check {tmp_path}/policy.toml",
        f"token new alice --role member --access-tokens {tmp_path}/tokens",
        f"token list --access-tokens {tmp_path}/tokens",
    ):
        program = f"from peers.cli import main; sys.argv = ['hub', *{command!r}.split()]; main()"
        done = run_without(SERVER | OTHERS, program)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_hub_without_the_package_for_jwts_says_what_to_install(tmp_path: Path) -> None:
    flags = "--listen tcp://127.0.0.1:0 --access-jwt-issuer i --access-jwt-audience a --access-jwt-keys"
    command = f"run {flags} {tmp_path}/jwks.json"
    program = f"from peers.cli import main; sys.argv = ['hub', *{command!r}.split()]; main()"
    done = run_without({"jwt", "cryptography"}, program)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install '.[server]'" in done.stderr
