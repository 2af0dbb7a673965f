"""`hub policy check`: read a policy as the hub would, and say what is wrong with it."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from peers.cli.texts import counted, escaped
from peers.users.users import read_policy_file

__all__ = ["check"]


def check(file: Annotated[str, Parameter(name="FILE", help="The TOML file of the policy.")], /) -> None:
    """Read a policy as the hub would: exit code 0 if it is right; if not, one line names the place and the cause."""
    policy = read_policy_file(file)
    roles, users = counted(len(policy.roles), "role"), counted(len(policy.users), "user")
    print(escaped(f"{file} is right: {roles} with those that are built in, {users}"))
