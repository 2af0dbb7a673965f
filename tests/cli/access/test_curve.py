"""`hub curve`: a pair of keys in two files; the secret one is nowhere else."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from peers.users.curve_keys import read_public, read_secret, write_secret
from peers.zeek.zmtp.z85 import encode_key
from tests.cli.access.programs import run
from tests.cli.programs import HUB, PATIENCE_S, PROJECT, environment


def test_a_pair_is_made(tmp_path: Path) -> None:
    pytest.importorskip("nacl", reason="part of the extra `test`")
    from peers.zeek.zmtp.curve import KeyPair

    made = run(tmp_path, "curve", "new", "broker")
    assert (made.returncode, made.stderr) == (0, "")
    secret, public = tmp_path / "broker.key", tmp_path / "broker.pub"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    pair = KeyPair.of_secret(read_secret(str(secret)))
    assert pair.public == read_public(str(public))
    assert made.stdout == encode_key(pair.public) + "\n"


@pytest.mark.parametrize("there", ["broker.key", "broker.pub"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    """Whoever has the old key would be shut out; and no half of a pair is left."""
    pytest.importorskip("nacl", reason="part of the extra `test`")
    (tmp_path / there).write_text("mine")
    refused = run(tmp_path, "curve", "new", "broker")
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"hub: {there}: is there already")
    assert [(place.name, place.read_text()) for place in tmp_path.glob("broker.*")] == [(there, "mine")]


TOLD = "CURVE needs PyNaCl, which is not installed: pip install '.[curve]'"


@pytest.mark.parametrize(
    "arguments",
    [
        ("curve", "new", "new"),
        ("run", "--listen", "zeek+zmq://127.0.0.1:0", "--zeek-curve-key", "key", "--zeek-curve-clients", "clients"),
    ],
    ids=["curve new", "run"],
)
def test_without_pynacl(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_secret(tmp_path / "key", bytes(32))
    (tmp_path / "clients").touch()
    path = os.pathsep.join([str(PROJECT / "tests" / "without"), str(PROJECT)])
    refused = subprocess.run(
        [*HUB, *arguments],
        cwd=tmp_path,
        env=environment(PYTHONPATH=path, WITHOUT="nacl.bindings"),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert (refused.returncode, refused.stderr) == (1, f"hub: {TOLD}\n")
    assert list(tmp_path.glob("new.*")) == []
