"""The examples of docs/policy.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hub.policy.policy import Action
from tests.cli.access.programs import run
from tests.cli.programs import PROJECT

TEXT = (PROJECT / "docs" / "policy.md").read_text()
POLICY = re.findall(r"^```toml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
DIALOGUES = [
    example
    for block in re.findall(r"^```\n(\$ .*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for example in re.findall(r"^\$ (hub .*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


@pytest.mark.parametrize(("line", "said"), DIALOGUES, ids=[line for line, _ in DIALOGUES])
def test_each_command_says_what_stands_there(line: str, said: str, tmp_path: Path) -> None:
    (policy,) = POLICY
    (tmp_path / "policy.toml").write_text(policy)
    ended = run(tmp_path, *shlex.split(line)[1:])
    assert (ended.stdout, ended.stderr) == (said, "")
    assert ended.returncode == said.startswith("refused")


def test_there_are_examples() -> None:
    assert len(DIALOGUES) == 8
    assert {said.partition(":")[0] for _, said in DIALOGUES} >= {"allowed", "refused"}


def test_every_action_is_described() -> None:
    keys = set(re.findall(r"`(\w+)`", TEXT.partition("## What a role may do")[2].partition("Each is a list")[0]))
    assert {action.value for action in Action} - {"bring", "take"} <= keys
    assert "link = { bring, take }" in TEXT
