"""Reading `[limits]` of a policy: what it means, and that each mistake is one error that names the place."""

from __future__ import annotations

import tomllib

import pytest

from hub.policy.language import read_policy
from hub.quotas.quotas import QuotaLimits, RateLimits, SetLimits
from hub.quotas.resource import Resource
from hub.settings.config import ConfigError


def read(text: str) -> QuotaLimits:
    return read_policy(tomllib.loads("[roles.sensor]\n" + text), "policy.toml").limits


def test_limits() -> None:
    assert read("") == QuotaLimits()
    assert read("""
        [limits.roles.sensor]
        connections = 2
        prefixes = 0
        bytes_per_s = "1MB"
        [limits.users.sensor-7]
        queued_bytes = "16 MiB"
        staged_bytes = 4096
        messages_per_s = 500
    """) == QuotaLimits(
        users={
            "sensor-7": SetLimits(
                {Resource.QUEUED_BYTES: 16 * 1024 * 1024, Resource.STAGED_BYTES: 4096}, RateLimits(messages_per_s=500)
            )
        },
        roles={"sensor": SetLimits({Resource.CONNECTIONS: 2, Resource.PREFIXES: 0}, RateLimits(bytes_per_s=1_000_000))},
    )


def test_every_resource_has_a_key() -> None:
    keys = "\n".join(f"{resource.value} = 3" for resource in Resource)
    assert read(f"[limits.users.alice]\n{keys}").users["alice"].most == dict.fromkeys(Resource, 3)


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("limits = 3", "limits", "expected a table [limits]"),
        ("[limits.sensor]", "limits.sensor", "there are roles, users"),
        ("[limits]\nroles = 3", "limits.roles", "expected a table"),
        ("[limits.roles.senso]", "limits.roles.senso", "did you mean sensor?"),
        ("[limits.roles]\nsensor = 3", "limits.roles.sensor", "expected a table"),
        ('[limits.users."a b"]', "limits.users.a b", "is no name of a user"),
        ("[limits.users.a]\nprefix = 3", "limits.users.a.prefix", "did you mean prefixes?"),
        ("[limits.users.a]\nprefixes = -1", "limits.users.a.prefixes", "-1 given, expected a whole number from 0"),
        ("[limits.users.a]\nprefixes = 1.5", "limits.users.a.prefixes", "1.5 given"),
        ("[limits.users.a]\nprefixes = true", "limits.users.a.prefixes", "a bool given"),
        ('[limits.users.a]\nprefixes = "3"', "limits.users.a.prefixes", "expected a whole number"),
        ("[limits.users.a]\nprefixes = 1000000000000001", "limits.users.a.prefixes", "expected a whole number"),
        (f"[limits.users.a]\nprefixes = {10**4000}", "limits.users.a.prefixes", "a int given"),
        ('[limits.users.a]\nqueued_bytes = "much"', "limits.users.a.queued_bytes", "such as '64KiB'"),
        ("[limits.users.a]\nqueued_bytes = []", "limits.users.a.queued_bytes", "a list given"),
        ("[limits.users.a]\nmessages_per_s = 0", "limits.users.a.messages_per_s", "from 1"),
        ("[limits.users.a]\nmessages_per_s = inf", "limits.users.a.messages_per_s", "inf given"),
    ],
)
def test_mistakes(text: str, place: str, told: str) -> None:
    tree = {"roles": {"sensor": {}}, **tomllib.loads(text)}
    with pytest.raises(ConfigError) as error:
        read_policy(tree, "policy.toml")
    assert error.value.source == "policy.toml"
    assert error.value.key == place
    assert told in error.value.reason
