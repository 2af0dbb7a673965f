"""Every trick with a topic that somebody could hope for, for a user `alice` with the role below."""

from __future__ import annotations

from hub.topics import RESERVED

__all__ = ["ALLOWED", "BRINGABLE", "DENIED", "ROLE"]

ROLE = '{ allow = ["/zeek", "/zeek/secret/shared", "/status/{user}", "zeek/event"], deny = ["/zeek/secret"] }'
"""What is granted, as a policy has it."""

ALLOWED = [
    "/zeek",
    "/zeek/dns",
    "/zeek/dns/10.0.0.7",
    "/zeek/",
    "/zeek//",
    "/zeek//secret",
    "/zeek/../other",
    "/zeek/./x",
    "/zeek/Secret",
    "/zeek/secre",
    "/zeek/secrets",
    "/zeek/ secret",
    "/zeek/secret /x",
    "/zeek/%73ecret",
    "/zeek/\N{LATIN SMALL LETTER LONG S}ecret",
    "/zeek/secret/shared",
    "/zeek/secret/shared/x",
    "/status/alice",
    "/status/alice/x",
    "zeek/event",
    "zeek/event/x",
]
"""Nothing is read into a topic: what only resembles another one is another one."""

DENIED = [
    "/",
    "//",
    "/zee",
    "/zeekling",
    "/zeek2/dns",
    "/zeek.dns",
    "/zeek dns",
    "/zeek\\dns",
    "/ZEEK",
    "/Zeek/dns",
    "/zeeK",
    "/\N{FULLWIDTH LATIN SMALL LETTER Z}eek/dns",
    "/zeek\N{COMBINING ACUTE ACCENT}/dns",
    "/zeek\N{ZERO WIDTH SPACE}/dns",
    "/zeek\N{FRACTION SLASH}dns",
    "/zeek\N{DIVISION SLASH}dns",
    "/zeek%2fdns",
    "/%7aeek/dns",
    "%2fzeek/dns",
    "zeek",
    "zeek/dns",
    "zeek/events",
    "zeek//event",
    "//zeek",
    "//zeek/dns",
    "/./zeek",
    "/../zeek/dns",
    "/x/../zeek/dns",
    " /zeek",
    "/ zeek",
    "/zeek /dns",
    "*",
    "/*",
    "/*/dns",
    "/zeek*",
    "{user}",
    "/status",
    "/status/",
    "/status//alice",
    "/status/{user}",
    "/status/*",
    "/status/bob",
    "/status/alicex",
    "/status/Alice",
    "/status/alice ",
    "/status/%61lice",
    "/status/bob/alice",
    "/status/./alice",
    "/zeek/secret",
    "/zeek/secret/",
    "/zeek/secret/x",
    "/zeek/secret/share",
    "/zeek/secret/sharedx",
    "/zeek/secret//shared",
    "/zeek/secret/../dns",
    "/other",
    "/other/x",
    "$hub/clients",
    "$hub",
    "$hub/",
    "/$hub/clients",
    "status/alice",
]

BRINGABLE = [topic for topic in (*ALLOWED, *DENIED) if not topic.startswith(RESERVED)]
"""Those that clients may try to publish; what is under `$hub/` nobody may, whatever is granted."""
