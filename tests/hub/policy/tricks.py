"""Every trick with a topic that somebody could hope for, and the rules of a policy in the plainest form there is."""

from __future__ import annotations

from typing import NamedTuple

from hub.policy.grants import EVERYTHING, USER, User
from hub.topics import RESERVED

ROLE = '{ allow = ["/zeek", "/zeek/secret/shared", "/status/{user}", "zeek/event"], deny = ["/zeek/secret"] }'
"""What is granted, as a policy has it."""


ALLOWED = [
    *("/zeek", "/zeek/dns", "/zeek/dns/10.0.0.7", "/zeek/", "/zeek//", "/zeek//secret", "/zeek/../other"),
    *("/zeek/./x", "/zeek/Secret", "/zeek/secre", "/zeek/secrets", "/zeek/ secret", "/zeek/secret /x"),
    *("/zeek/%73ecret", "/zeek/\N{LATIN SMALL LETTER LONG S}ecret", "/zeek/secret/shared", "/zeek/secret/shared/x"),
    *("/status/alice", "/status/alice/x", "zeek/event", "zeek/event/x"),
]
"""Nothing is read into a topic: what only resembles another one is another one."""


DENIED = [
    *("/", "//", "/zee", "/zeekling", "/zeek2/dns", "/zeek.dns", "/zeek dns", "/zeek\\dns", "/ZEEK", "/Zeek/dns"),
    *("/zeeK", "/\N{FULLWIDTH LATIN SMALL LETTER Z}eek/dns", "/zeek\N{COMBINING ACUTE ACCENT}/dns"),
    *("/zeek\N{ZERO WIDTH SPACE}/dns", "/zeek\N{FRACTION SLASH}dns", "/zeek\N{DIVISION SLASH}dns", "/zeek%2fdns"),
    *("/%7aeek/dns", "%2fzeek/dns", "zeek", "zeek/dns", "zeek/events", "zeek//event", "//zeek", "//zeek/dns"),
    *("/./zeek", "/../zeek/dns", "/x/../zeek/dns", " /zeek", "/ zeek", "/zeek /dns", "*", "/*", "/*/dns", "/zeek*"),
    *("{user}", "/status", "/status/", "/status//alice", "/status/{user}", "/status/*", "/status/bob"),
    *("/status/alicex", "/status/Alice", "/status/alice ", "/status/%61lice", "/status/bob/alice"),
    *("/status/./alice", "/zeek/secret", "/zeek/secret/", "/zeek/secret/x", "/zeek/secret/share"),
    *("/zeek/secret/sharedx", "/zeek/secret//shared", "/zeek/secret/../dns", "/other", "/other/x", "$hub/clients"),
    *("$hub", "$hub/", "/$hub/clients", "status/alice"),
]

BRINGABLE = [topic for topic in (*ALLOWED, *DENIED) if not topic.startswith(RESERVED)]
"""Those that clients may try to publish; what is under `$hub/` nobody may, whatever is granted."""


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
