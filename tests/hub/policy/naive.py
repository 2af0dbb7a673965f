"""The rules of a policy in the plainest form that there is: every grant is compared with every topic."""

from __future__ import annotations

from typing import NamedTuple

from hub.policy.grants import EVERYTHING, USER, User

OWN = "$hub"


class NaiveGrant(NamedTuple):
    role: str
    path: str
    allowed: bool

    def components(self, user: User) -> list[str]:
        if self.path == EVERYTHING:
            return []
        return [user.name if component == USER else component for component in self.path.split("/")]


def naive_allows(grants: list[NaiveGrant], topic: str, user: User) -> bool:
    components = topic.split("/")
    deepest, allowed = -1, False
    for grant in grants:
        path = grant.components(user)
        if grant.role not in user.roles or components[: len(path)] != path or (not path and components[0] == OWN):
            continue
        if len(path) > deepest:
            deepest, allowed = len(path), grant.allowed
        elif len(path) == deepest:
            allowed = allowed and grant.allowed
    return allowed


def naive_covers(grants: list[NaiveGrant], prefix: str, user: User, words: list[str]) -> bool:
    endings = [word[len(part) :] for part in [prefix.rpartition("/")[2]] for word in words if word.startswith(part)]
    ways = [prefix + ending for ending in ["", "?", *endings]]
    for _ in range(3):
        ways += [f"{way}/{word}" for way in ways for word in words]
        ways = list(dict.fromkeys(ways))
    reach = [topic for topic in ways if topic]
    if not prefix.startswith(OWN + "/"):
        reach = [topic for topic in reach if topic.split("/")[0] != OWN]
    return all(naive_allows(grants, topic, user) for topic in reach)
