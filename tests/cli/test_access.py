"""`hub curve`, `hub policy` and `hub token`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from peers.cli.access import span_of
from peers.cli.texts import FlagError
from peers.users.files import read_public, read_secret, write_secret
from peers.users.tokens import TokenFile
from peers.zeek.zmtp.z85 import encode_key
from tests.cli.programs import HUB, PATIENCE_S, PROJECT, RunningHub, environment, run_in


def test_a_pair_is_made(tmp_path: Path) -> None:
    pytest.importorskip("nacl", reason="part of the extra `test`")
    from peers.zeek.zmtp.curve import KeyPair

    made = run_in(tmp_path, "curve", "new", "broker")
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
    no = run_in(tmp_path, "curve", "new", "broker")
    assert no.returncode == 1
    assert no.stderr.startswith(f"hub: {there}: exists, and")
    assert [(place.name, place.read_text()) for place in tmp_path.glob("broker.*")] == [(there, "mine")]


TOLD = "CURVE needs PyNaCl, which is not installed: pip install 'topichub[curve]'"


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
    no = subprocess.run(
        [*HUB, *arguments],
        cwd=tmp_path,
        env=environment(PYTHONPATH=path, WITHOUT="nacl.bindings"),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
        text=True,
    )
    assert (no.returncode, no.stderr) == (1, f"hub: {TOLD}\n")
    assert list(tmp_path.glob("new.*")) == []


POLICY = """
[roles.sensor]
publish = { allow = ["/zeek"], deny = ["/zeek/secret"] }
claim = ["org.example"]
link = { bring = ["/a"], take = ["/b"] }

[users]
alice = ["sensor"]
"""


def test_whose_policy_it_is(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    alice = ("policy", "test", "alice", "publish", "/zeek")
    assert run_in(tmp_path, *alice).stdout == (
        "refused: there is no user 'alice', and no role is given: this user may not connect\n"
    )
    assert run_in(tmp_path, *alice, "--role", "member").returncode == 0
    assert run_in(tmp_path, *alice, HUB_ACCESS_POLICY="policy.toml").stdout.startswith("allowed: ")
    (tmp_path / "hub.toml").write_text('[access]\npolicy = "policy.toml"\n')
    assert run_in(tmp_path, *alice).returncode == 0
    assert run_in(tmp_path, "policy", "test", "local", "publish", "/x").returncode == 0
    (tmp_path / "policy.toml").write_text(POLICY + "[limits.roles.sensor]\nmessages_per_s = 5000\n")
    assert run_in(tmp_path, *alice).stdout.splitlines()[1:] == ["  limit: messages_per_s 5,000"]


def test_of_a_hub_that_runs(running_hub: RunningHub, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    url = ("--url", running_hub.tcp)
    asked = run_in(tmp_path, "policy", "test", "alice", "publish", "/x", "--running", *url)
    assert (asked.returncode, asked.stdout) == (0, "allowed: this hub has no users: every client may do everything\n")
    both = run_in(tmp_path, "policy", "test", "a", "publish", "/x", "--running", "--policy", "policy.toml", *url)
    assert (both.returncode, both.stderr.count("--running asks a hub")) == (2, 1)


def test_mistakes_of_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY.replace('"/zeek"', '"/zeek/"'))
    broken = "hub: policy.toml: roles.sensor.publish.allow[0]: path '/zeek/' ends with '/'; write '/zeek',"
    for arguments, code, told in (
        (("check", "policy.toml"), 1, broken),
        (("check", "none.toml"), 1, "hub: none.toml: there is no such file"),
        (("test", "alice", "publish", "/x", "--policy", "policy.toml"), 1, broken),
        (("test", "a/b", "publish", "/x"), 2, "hub: 'a/b' is not a valid name of a user"),
        (("test", "a", "publish", "/x", "--role", "no"), 2, "hub: there is no role 'no'; there are"),
        (("test", "a", "push", "/x"), 2, "hub: ACTION push: give one of publish,"),
        (("check",), 2, "hub: FILE is missing"),
    ):
        ended = run_in(tmp_path, "policy", *arguments)
        assert (ended.returncode, ended.stdout) == (code, "")
        assert ended.stderr.startswith(told)
        assert ended.stderr.count("\n") == 1


SET = {"HUB_ACCESS_TOKENS": "tokens"}


def test_the_life_of_a_token(tmp_path: Path) -> None:
    made = run_in(tmp_path, "token", "new", "alice", "--role", "member", "--expires", "30d", "--label", "a b", **SET)
    assert (made.returncode, made.stderr) == (0, "")
    secret = made.stdout.removesuffix("\n")
    file = tmp_path / "tokens"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in file.read_text()
    token = TokenFile(str(file)).read().find(secret)
    assert token is not None
    assert (token.user, token.roles, token.label) == ("alice", ("member",), "a b")
    assert token.ends is not None
    assert token.ends - token.created == timedelta(days=30)

    (tmp_path / "hub.toml").write_text('[access]\ntokens = "tokens"\n')
    (listed,) = map(json.loads, run_in(tmp_path, "token", "list", "--json").stdout.splitlines())
    assert (listed["id"], listed["user"], listed["roles"], listed["label"]) == (token.id, "alice", ["member"], "a b")
    assert not any(token.sha256 in str(value) for value in listed.values())
    table = run_in(tmp_path, "token", "list").stdout
    assert token.id in table
    assert token.sha256 not in table

    over = json.loads(file.read_text().splitlines()[-1]) | {"ends": "2020-01-01T00:00:00Z"}
    file.write_text(json.dumps(over))
    assert "2020-01-01 00:00 (over)" in run_in(tmp_path, "token", "list").stdout
    revoked = run_in(tmp_path, "token", "revoke", token.id)
    assert revoked.stdout.startswith(f"revoked: token {token.id} of alice (a b);")
    assert len(TokenFile(str(file)).read()) == 0


def test_mistakes_of_token(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[users]\nalice = []\n")
    policy = {"HUB_ACCESS_POLICY": "policy.toml"}
    for arguments, variables, code, told in (
        (
            ("list",),
            {},
            2,
            "no file of tokens is set: access.tokens in the hub's file (--config FILE), HUB_ACCESS_TOKENS, or",
        ),
        (("list",), SET, 1, "tokens: there is no such file; `hub token new USER` makes it"),
        (("revoke", "0"), SET, 1, "tokens: there is no such file"),
        (("new", "alice"), SET, 2, "the built-in policy has no user 'alice'"),
        (("new", "bob"), SET | policy, 2, "policy.toml has no user 'bob'"),
        (("new", "alice", "--role", "no"), SET | policy, 2, "--role no: there is no such role in policy.toml"),
        (("new", "alice", "--role", "a/b"), SET, 2, "'a/b' is not a valid name of a user or role"),
        (("new", "a/b"), SET, 2, "'a/b' is not a valid name of a user"),
        (("new", "local", "--role", "admin"), SET, 2, "'local' is a reserved name"),
        (("new", "alice", "--label", "x" * 65), SET, 2, "--label "),
        (("new", "alice", "--expires", "soon"), SET, 2, "--expires 'soon': give a number with s, m, h, d or w"),
        (("new",), SET, 2, "USER is missing"),
        (("new", "alice", "--access-tokens", "no/tokens"), policy, 1, "no/tokens: cannot be written: No such file"),
    ):
        ended = run_in(tmp_path, "token", *arguments, **variables)
        assert (ended.returncode, ended.stdout) == (code, ""), arguments
        assert ended.stderr.startswith(f"hub: {told}")
        assert ended.stderr.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["policy.toml"]


def test_spans() -> None:
    for text, seconds in (("1s", 1), ("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("4w", 2_419_200)):
        assert span_of("--expires", text) == timedelta(seconds=seconds)
    for text in ("", "30", "d", "0d", "-1d", "1.5h", "30D", "1y", "30d ", "1e3s", "36526d", "9" * 9 + "w"):
        with pytest.raises(FlagError):
            span_of("--expires", text)
