"""`hub policy`: what is wrong with a policy, and what somebody may do by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hub.policy.policy import Action, Policy
from hub.policy.verdict import DEEDS, verdict
from peers.users.users import read_policy_file
from tests.cli.access.programs import run
from tests.cli.programs import RunningHub

POLICY = """
[roles.sensor]
publish = { allow = ["/zeek"], deny = ["/zeek/secret"] }
claim = ["org.example"]
link = { bring = ["/a"], take = ["/b"] }

[users]
alice = ["sensor"]
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    (tmp_path / "policy.toml").write_text(POLICY)
    return read_policy_file(str(tmp_path / "policy.toml"))


@pytest.mark.parametrize(
    ("action", "topic", "allowed", "told"),
    [
        (Action.PUBLISH, "/zeek/dns", True, "role sensor allows '/zeek' (roles of alice: sensor)"),
        (Action.PUBLISH, "/zeek/secret/x", False, "role sensor denies '/zeek/secret'"),
        (Action.PUBLISH, "/x", False, "no rule is met"),
        (Action.CLAIM, "org.example.x", True, "role sensor allows 'org.example'"),
        (Action.CLAIM, "org.examples", False, "no rule is met"),
        (Action.BRING, "/a/b", True, "role sensor allows '/a'"),
        (Action.TAKE, "/b/", True, "role sensor allows '/b'"),
        (Action.TAKE, "/b/c", True, "role sensor allows '/b'"),
        (Action.TAKE, "/b", False, "granted beneath: '/b/'"),
        (Action.SERVE, "/b", False, "serve '/b': not granted to user 'alice'; no rule allows all of it (roles"),
    ],
)
def test_verdicts(action: Action, topic: str, allowed: bool, told: str, policy: Policy) -> None:  # noqa: FBT001
    found = verdict(policy, "alice", (), DEEDS[action.value], topic)
    assert found.allowed is allowed
    assert told in found.text


def test_roles_that_a_token_vouches_for(policy: Policy) -> None:
    assert verdict(policy, "alice", ("reader",), DEEDS["subscribe"], "").allowed
    assert "roles of eve: none" in verdict(policy, "eve", (), DEEDS["subscribe"], "").text


def test_whose_policy_it_is(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    alice = ("policy", "test", "alice", "publish", "/zeek")
    assert run(tmp_path, *alice).stdout == (
        "refused: there is no user 'alice', and no role is given: he would not be let in\n"
    )
    assert run(tmp_path, *alice, "--role", "member").returncode == 0
    assert run(tmp_path, *alice, HUB_ACCESS_POLICY="policy.toml").stdout.startswith("allowed: ")
    (tmp_path / "hub.toml").write_text('[access]\npolicy = "policy.toml"\n')
    assert run(tmp_path, *alice).returncode == 0
    assert run(tmp_path, "policy", "test", "local", "publish", "/x").returncode == 0


def test_verdicts_for_programs(tmp_path: Path) -> None:
    words = ("policy", "test", "alice", "publish", "/zeek", "--json")
    refused = run(tmp_path, *words)
    told = json.loads(refused.stdout)
    assert (refused.returncode, told["user"], told["action"], told["topic"]) == (1, "alice", "publish", "/zeek")
    assert (told["allowed"], told["text"].startswith("there is no user 'alice'")) == (False, True)
    allowed = run(tmp_path, *words, "--role", "member")
    assert (allowed.returncode, json.loads(allowed.stdout)["allowed"]) == (0, True)


def test_limits_that_are_set(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY + "[limits.roles.sensor]\nmessages_per_s = 5000\n")
    words = ("policy", "test", "alice", "publish", "/zeek", "--policy", "policy.toml")
    assert run(tmp_path, *words).stdout.splitlines()[1:] == ["  limit: messages_per_s 5,000"]


def test_of_a_hub_that_runs(running_hub: RunningHub, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    url = ("--url", running_hub.tcp)
    asked = run(tmp_path, "policy", "test", "alice", "publish", "/x", "--running", *url)
    assert (asked.returncode, asked.stdout) == (0, "allowed: this hub has no users: everybody may do everything\n")
    both = run(tmp_path, "policy", "test", "a", "publish", "/x", "--running", "--policy", "policy.toml", *url)
    assert (both.returncode, both.stderr.count("--running asks a hub")) == (2, 1)


def test_mistakes(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY.replace('"/zeek"', '"/zeek/"'))
    broken = "hub: policy.toml: roles.sensor.publish.allow[0]: path '/zeek/' ends with '/'; write '/zeek',"
    for arguments, code, told in (
        (("check", "policy.toml"), 1, broken),
        (("check", "none.toml"), 1, "hub: none.toml: there is no such file"),
        (("test", "alice", "publish", "/x", "--policy", "policy.toml"), 1, broken),
        (("test", "a/b", "publish", "/x"), 2, "hub: 'a/b' is no name of a user"),
        (("test", "a", "publish", "/x", "--role", "no"), 2, "hub: there is no role 'no'; there are"),
        (("test", "a", "push", "/x"), 2, "hub: ACTION push: give one of publish,"),
        (("check",), 2, "hub: FILE is missing"),
    ):
        ended = run(tmp_path, "policy", *arguments)
        assert (ended.returncode, ended.stdout) == (code, "")
        assert ended.stderr.startswith(told)
        assert ended.stderr.count("\n") == 1
