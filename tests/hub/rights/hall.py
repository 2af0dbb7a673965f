"""What the tests of rights share: a core with a policy, users that join it, and what they were told."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from hub.errors import RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.labels.envelope import Envelope
from hub.mesh.announcement import Interest
from hub.policy.language import read_policy
from hub.policy.policy import Policy
from hub.topics import RESERVED
from tests.hub.fakes import FakeOutlet, Turn, bring, frame_of, handler_of, mesh_link

__all__ = ["Guest", "Hall", "policy_of"]


def policy_of(text: str) -> Policy:
    return read_policy(tomllib.loads(text), "policy.toml")


class Guest:
    def __init__(self, hall: Hall, handler: Handler, outlet: FakeOutlet) -> None:
        self.hall = hall
        self.handler = handler
        self.outlet = outlet
        self.refused: list[tuple[str, int]] = []
        hall.core.authority.on_refused[handler] = self._refuse

    def _refuse(self, error: RejectedError, messages: int) -> None:
        self.refused.append((error.text, messages))

    def send(self, *messages: tuple[str | Envelope, Any]) -> None:
        self.refused += bring(self.hall.core, self.handler, [frame_of(topic, value) for topic, value in messages])

    @property
    def refused_messages(self) -> int:
        return sum(messages for _, messages in self.refused)

    def take(self) -> list[Any]:
        return [value for topic, value in self.take_messages() if not topic.startswith(RESERVED)]

    def take_messages(self) -> list[tuple[str, Any]]:
        self.hall.core.flush()
        messages = self.outlet.messages
        self.outlet.told.clear()
        return messages


class Hall:
    def __init__(self, policy: str | Policy, **settings: Any) -> None:
        self.turn = Turn(**settings)
        self.core = self.turn.core
        self.policy = policy_of(policy) if isinstance(policy, str) else policy
        self.core.authority.adopt(self.policy)

    def join(
        self,
        user: str | None,
        *prefixes: str,
        role: Role = Role.CLIENT,
        narrows: bool = False,
        roles: Sequence[str] = (),
        interests: Sequence[Interest] = (),
    ) -> Guest:
        outlet = FakeOutlet()
        handler = handler_of(outlet, role=role)
        handler.rights = None if user is None else self.policy.rights(user, roles)
        handler.narrows = handler.narrows or narrows
        self.core.attach(handler)
        if role is Role.LINK:
            mesh_link(self.core, handler, *prefixes, *interests)
        else:
            self.core.subscribe(handler, prefixes)
        return Guest(self, handler, outlet)

    def reload(self, policy: Policy, users: Mapping[Handler, str | None]) -> None:
        self.policy = policy
        self.core.authority.adopt(policy)
        for handler, user in users.items():
            if user is not None:
                self.core.authority.give_rights(handler, policy.rights(user))
