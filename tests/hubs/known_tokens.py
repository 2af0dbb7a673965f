"""A hub that knows some users, by tokens that a test gives them."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

from hub.policy.language import read_policy
from peers.users.access import Failures
from peers.users.tokens import Token, Tokens, hash_of
from peers.users.users import Users
from tests.hubs.hub import Hub

__all__ = ["SECRET", "KnownTokens"]

# What every token of these tests begins with, so that it can be searched for where it must not stand.
SECRET = "hub_c2VjcmV0"
POLICY = {
    "roles": {
        "sensor": {"publish": ["*"], "subscribe": ["*"]},
        "site": {"link": {"bring": ["*"], "take": ["*"]}},
        "zeeks": {"link": {"bring": ["/zeek"], "take": ["/control"]}},
        "watcher": {"subscribe": ["$hub/statistics"]},
    },
    "users": {"alice": ["sensor"], "bob": ["sensor"], "far": ["site"], "watcher": ["watcher"]},
}


class _Patience(Failures):
    delay_s = 0.0

    def note(self, address: str, now_s: float) -> float:
        super().note(address, now_s)
        return self.delay_s


class KnownTokens:
    """Users of a hub, with their tokens."""

    def __init__(self, hub: Hub, anonymous: str = "", *, knows_itself: bool = False) -> None:
        self.hub = hub
        self._tokens: dict[str, Token] = {}
        own_uids = frozenset({os.getuid()}) if knows_itself else frozenset()
        self._users = Users(read_policy(POLICY, "test"), own_uids=own_uids, anonymous=anonymous)
        self._patience = hub.server.access.failures = _Patience()
        hub.server.access._wall_s = self.wall_s
        hub.server.wall_us = lambda: int(self.wall_s() * 1e6)  # type: ignore[method-assign]
        hub.server.access.adopt(self._users)
        hub.server.core.authority.adopt(self._users.policy)

    def wall_s(self) -> float:
        return time.time() + self.hub.clock.ahead_s

    def token(self, user: str, *, seconds: float | None = None, text: str = "", roles: tuple[str, ...] = ()) -> str:
        secret = text or f"{SECRET}_{user}_{len(self._tokens)}"
        now = datetime.fromtimestamp(self.wall_s(), UTC)
        ends = None if seconds is None else datetime.fromtimestamp(self.wall_s() + seconds, UTC)
        self._tokens[hash_of(secret)] = Token(hash_of(secret), user, now, ends, roles)
        self.hub.server.access.adopt(self._users._replace(tokens=Tokens(dict(self._tokens))))
        return secret

    def answer_after(self, seconds: float) -> None:
        self._patience.delay_s = seconds

    @property
    def failures(self) -> int:
        return self.hub.server.access.refused.total()
