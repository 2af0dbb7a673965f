"""`hub token`: a token's text is written once, and the file has only its hash."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from peers.cli.flag_values import FlagError
from peers.cli.token import span_of
from peers.users.tokens import TokenFile
from tests.cli.access.programs import run

SET = {"HUB_ACCESS_TOKENS": "tokens"}


def test_the_life_of_a_token(tmp_path: Path) -> None:
    made = run(tmp_path, "token", "new", "alice", "--role", "member", "--expires", "30d", "--label", "a b", **SET)
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
    (listed,) = map(json.loads, run(tmp_path, "token", "list", "--json").stdout.splitlines())
    assert (listed["id"], listed["user"], listed["roles"], listed["label"]) == (token.id, "alice", ["member"], "a b")
    assert not any(token.sha256 in str(value) for value in listed.values())
    table = run(tmp_path, "token", "list").stdout
    assert token.id in table
    assert token.sha256 not in table

    revoked = run(tmp_path, "token", "revoke", token.id)
    assert revoked.stdout.startswith(f"revoked: token {token.id} of alice (a b);")
    assert len(TokenFile(str(file)).read()) == 0


def test_tokens_that_are_over(tmp_path: Path) -> None:
    run(tmp_path, "token", "new", "alice", "--role", "member", "--expires", "1s", **SET)
    file = tmp_path / "tokens"
    old = json.loads(file.read_text().splitlines()[-1]) | {"ends": "2020-01-01T00:00:00Z"}
    file.write_text(json.dumps(old))
    assert "2020-01-01 00:00 (over)" in run(tmp_path, "token", "list", **SET).stdout


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[users]\nalice = []\n")
    policy = {"HUB_ACCESS_POLICY": "policy.toml"}
    for arguments, variables, code, told in (
        (("list",), {}, 2, "no file of tokens is set: access.tokens in the hub's file, HUB_ACCESS_TOKENS, or"),
        (("list",), SET, 1, "tokens: there is no such file; `hub token new USER` makes it"),
        (("revoke", "0"), SET, 1, "tokens: there is no such file"),
        (("new", "alice"), SET, 2, "the built-in policy has no user 'alice'"),
        (("new", "bob"), SET | policy, 2, "policy.toml has no user 'bob'"),
        (("new", "alice", "--role", "no"), SET | policy, 2, "--role no: there is no such role in policy.toml"),
        (("new", "alice", "--role", "a/b"), SET, 2, "'a/b' is no name of a user or role"),
        (("new", "a/b"), SET, 2, "'a/b' is no name of a user"),
        (("new", "local", "--role", "admin"), SET, 2, "'local' is a name that the hub gives itself"),
        (("new", "alice", "--label", "x" * 65), SET, 2, "--label "),
        (("new", "alice", "--expires", "soon"), SET, 2, "--expires 'soon': give a number with s, m, h, d or w"),
        (("new",), SET, 2, "USER is missing"),
        (("new", "alice", "--access-tokens", "no/tokens"), policy, 1, "no/tokens: cannot be written: No such file"),
    ):
        ended = run(tmp_path, "token", *arguments, **variables)
        assert (ended.returncode, ended.stdout) == (code, ""), arguments
        assert ended.stderr.startswith(f"hub: {told}")
        assert ended.stderr.count("\n") == 1
    assert [one.name for one in tmp_path.iterdir()] == ["policy.toml"]


def test_a_file_that_others_may_read(tmp_path: Path) -> None:
    (tmp_path / "tokens").touch(0o644)
    (tmp_path / "tokens").chmod(0o644)
    ended = run(tmp_path, "token", "new", "alice", "--role", "member", **SET)
    assert ended.stderr == (
        "hub: tokens: others may read or write it (mode 0644); take that from them: chmod 600 tokens\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1s", 1), ("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000), ("4w", 2_419_200)],
)
def test_spans(text: str, expected: int) -> None:
    assert span_of("--expires", text) == timedelta(seconds=expected)


@pytest.mark.parametrize(
    "text", ["", "30", "d", "0d", "-1d", "1.5h", "30D", "1y", "30d ", "1e3s", "36526d", "9" * 9 + "w"]
)
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(FlagError):
        span_of("--expires", text)
