"""Where the rules of a policy stand."""

from __future__ import annotations

import tomllib

from hub.policy.language import read_policy
from hub.policy.places import KEPT_CHARACTERS
from hub.policy.policy import Action, Policy

TEXT = """
[roles.sensor]
publish = [
  "/zeek",
  "/status/{user}",
]
subscribe = { allow = ["/a", "/b"], deny = ["/a/b"] }
link = { bring = ["/x"], take = { deny = ["/y"] } }
admin = true

["roles"."o-d.d"]
publish = ["/z"]

[limits.users.alice]
prefixes = 7
"""


def policy(text: str = TEXT) -> Policy:
    """A policy."""
    return read_policy(tomllib.loads(text), "policy.toml", text)


def where(of: Policy, role: str, action: Action, path: str, *, allowed: bool = True) -> tuple[str, int | None]:
    """The keys of a rule, and its line."""
    place = of.places.grant(role, action.value, path, allowed=allowed)
    return place.text, of.places.line(place)


def test_rules() -> None:
    """Each has its keys, with its number in its list, and the line in which it stands."""
    of = policy()
    assert where(of, "sensor", Action.PUBLISH, "/status/{user}") == ("roles.sensor.publish[1]", 5)
    assert where(of, "sensor", Action.SUBSCRIBE, "/b") == ("roles.sensor.subscribe.allow[1]", 7)
    assert where(of, "sensor", Action.SUBSCRIBE, "/a/b", allowed=False) == ("roles.sensor.subscribe.deny[0]", 7)
    assert where(of, "sensor", Action.BRING, "/x") == ("roles.sensor.link.bring[0]", 8)
    assert where(of, "sensor", Action.TAKE, "/y", allowed=False) == ("roles.sensor.link.take.deny[0]", 8)
    assert where(of, "o-d.d", Action.PUBLISH, "/z") == ("roles.o-d.d.publish[0]", 12)


def test_what_is_no_rule() -> None:
    """That a role is an admin's, and limits, have places, too."""
    of = policy()
    admin, limit = of.places.admin("sensor"), of.places.limit("users", "alice", "prefixes")
    assert (admin.text, of.places.line(admin)) == ("roles.sensor.admin", 9)
    assert (limit.source, limit.text, of.places.line(limit)) == ("policy.toml", "limits.users.alice.prefixes", 15)


def test_what_is_built_in() -> None:
    """It stands in no file."""
    of = policy()
    place = of.places.grant("member", "publish", "*", allowed=True)
    assert (place.source, place.text, of.places.line(place)) == ("", "", None)
    assert of.places.admin("admin") == place


def test_without_the_text() -> None:
    """The keys are known, and the line is not: so it is of texts that are too long to keep."""
    of = read_policy(tomllib.loads(TEXT), "policy.toml")
    assert where(of, "sensor", Action.PUBLISH, "/zeek") == ("roles.sensor.publish[0]", None)
    long = policy(TEXT + "#" * KEPT_CHARACTERS)
    assert where(long, "sensor", Action.PUBLISH, "/zeek") == ("roles.sensor.publish[0]", None)


def test_names_that_would_not_be_read() -> None:
    """They are written out."""
    assert policy().places.limit("users", "\x1b[31m", "x" * 500).text.isprintable()
