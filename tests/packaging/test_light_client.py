"""What is installed for those who want a part of it only."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""

PROGRAM = """
import contextlib, json, tempfile
from peers.cli import main

found = []
for command in {commands!r}:
    sys.argv = ["hub", *command.split()]
    code = 0
    said, told = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        try:
            main()
        except SystemExit as error:
            code = error.code or 0
    found.append([code, *(file.seek(0) or file.read() for file in (said, told))])
print(json.dumps(found))
"""

SERVER = {"apsw", "backports", "cryptography", "jwt", "prometheus_client", "sortedcontainers", "structlog"}
OTHERS = {"numpy", "pandas", "pyarrow", "pyspark", "uvloop"}


class Done(NamedTuple):
    code: int
    said: str
    told: str


def run_without(names: set[str], *commands: str) -> list[Done]:
    """Run commands one after the other, in a process in which packages are absent."""
    program = BLOCKED.format(names=names) + PROGRAM.format(commands=commands)
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [Done(*each) for each in json.loads(done.stdout)]


def test_commands_that_talk_to_a_hub_need_no_package_of_the_hub(tmp_path: Path) -> None:
    """Nor do a policy and tokens; a command whose packages are absent says what to install."""
    (tmp_path / "policy.toml").write_text("[users]\nalice = []\n")
    works = [f"{name} --help" for name in ("pub", "sub", "request", "serve", "names", "top", "check")]
    works += [
        f"policy check {tmp_path}/policy.toml",
        f"token new alice --role member --access-tokens {tmp_path}/tokens",
        f"token list --access-tokens {tmp_path}/tokens",
    ]
    done = run_without(SERVER | OTHERS, *works, "run", "journal verify x")
    for command, each in zip(works, done, strict=False):
        assert (each.code, each.told) == (0, ""), command
    (tier,) = run_without(OTHERS, "journal tier verify x")
    for each, extra in ((done[-2], "server"), (done[-1], "server"), (tier, "tier")):
        assert (each.code, each.told.count("\n")) == (1, 1)
        assert f"pip install 'topichub[{extra}]'" in each.told


def test_a_hub_without_the_package_for_jwts_says_what_to_install(tmp_path: Path) -> None:
    flags = "--listen tcp://127.0.0.1:0 --access-jwt-issuer i --access-jwt-audience a --access-jwt-keys"
    # In a process that is the command's own: a hub writes to the descriptor of its standard error.
    program = BLOCKED.format(names={"jwt", "cryptography"}) + "from peers.cli import main\nmain()"
    command = [sys.executable, "-c", program, "run", *flags.split(), f"{tmp_path}/jwks.json"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "pip install 'topichub[server]'" in done.stderr
