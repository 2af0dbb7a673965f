"""What the tests of rights share: a core with a policy, users that join it, and what they were told."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from hub.batch import Batch, decode_values
from hub.delivery import Role
from hub.errors import RejectedError
from hub.frame import FLAG_TAGGED, encode_frame, iterate_frames
from hub.handler import Handler
from hub.mesh.announcement import Interest
from hub.policy.language import read_policy
from hub.policy.policy import Policy
from hub.stretch import Stretch, find_runs
from hub.tags.envelope import Envelope
from hub.topics import RESERVED
from tests.hub.fakes import Turn, handler_of, mesh_link
from tests.hub.requests.party import FakePoster

__all__ = ["Guest", "Hall", "policy_of"]


def policy_of(text: str) -> Policy:
    return read_policy(tomllib.loads(text), "policy.toml")


class Guest:
    def __init__(self, hall: Hall, handler: Handler, outlet: FakePoster) -> None:
        self.hall = hall
        self.handler = handler
        self.outlet = outlet
        self.refused: list[tuple[str, int]] = []
        hall.core.authority.on_refused[handler] = self._refuse

    def _refuse(self, error: RejectedError, messages: int) -> None:
        self.refused.append((error.text, messages))

    def send(self, *messages: tuple[str | Envelope, Any]) -> None:
        core = self.hall.core
        frames = b"".join(_frame(topic, value) for topic, value in messages)
        position = 0
        core.write_is_due = True
        while position < len(frames):
            runs = find_runs(frames, position, core.routes.table, len(frames))
            if not runs[0]:
                frame = next(iterate_frames(frames[position:]))
                try:
                    core.routes.miss(frame.routing_key)
                except RejectedError as error:  # as the scanner does it
                    self._refuse(error, frame.messages)
                    position += len(encode_frame(frame.kind, frame.body, key=frame.key, flags=frame.flags))
                continue
            stretch = Stretch(frames, position, runs)
            if len(runs[0]) == 1:
                run = stretch.run(0)
                core.publish(self.handler, run.route, run)
            else:
                core.publish_stretch(self.handler, stretch)
            position = runs[1][-1]
        core.end_read()

    @property
    def refused_messages(self) -> int:
        return sum(messages for _, messages in self.refused)

    def take(self) -> list[Any]:
        return [value for topic, value in self.take_messages() if not topic.startswith(RESERVED)]

    def take_messages(self) -> list[tuple[str, Any]]:
        self.hall.core.flush()
        parts = [part for batch in self.outlet.batches for part in batch.parts()]
        self.outlet.told.clear()
        return [(part.topic.decode(), value) for part in parts for value in decode_values(part)]


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
        outlet = FakePoster()
        rights = None if user is None else self.policy.rights(user, roles)
        handler = handler_of(outlet, role=role, rights=rights)
        handler.poster = outlet
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


def _frame(topic: str | Envelope, value: Any) -> bytes:
    if isinstance(topic, Envelope):
        return Batch.under(topic.encode(), [value], FLAG_TAGGED).frames
    return Batch.of(topic, [value]).frames
