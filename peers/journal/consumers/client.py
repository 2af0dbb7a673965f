"""`ConsumerClient`: somebody who uses named consumers, as far as these must know him; `LocalClient`: one of this hub.

Who he is and what he may do is asked each time, as it may change while he waits. Owner: nobody; `LocalClient` is a view
of a handler, and equal to any other one of the same handler. Cost: that of `Rights`.

Not here: clients of other hubs (`peers.journal.consumers.far_client`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from hub.handler import Handler
from hub.policy.policy import Action
from hub.policy.refusal import check_granted, check_prefixes_granted
from hub.requests.hub_services import is_admin

__all__ = ["ConsumerClient", "LocalClient"]


class ConsumerClient(Hashable, Protocol):
    """One client."""

    @property
    def id(self) -> int:
        """The number of his connection at his hub."""

    @property
    def hub(self) -> str:
        """The id of his hub, for people; empty if it is this one."""

    @property
    def owner(self) -> str:
        """Whose consumers he uses: a user, or users with slashes between them; empty where there are no users."""

    @property
    def is_admin(self) -> bool:
        """Whether he may remove consumers of others."""

    @property
    def frame_limit_bytes(self) -> int:
        """The largest frame that he, and each link on the way to him, takes."""

    @property
    def is_gone(self) -> bool:
        """Whether he is connected no more."""

    def reads(self, prefixes: tuple[str, ...]) -> bool:
        """Return whether he may read the journal under all of these prefixes."""

    def check_reads(self, prefixes: tuple[str, ...]) -> None:
        """See to it that he may read the journal under all of these prefixes.

        Raises:
            RejectedError: He may not.
        """

    def check_publishes(self, topic: str) -> None:
        """See to it that he may publish under a topic.

        Raises:
            RejectedError: He may not.
        """


class LocalClient(NamedTuple):
    """A client that is connected with this hub."""

    handler: Handler
    hub: str = ""

    @property
    def id(self) -> int:
        """The number of his connection."""
        return self.handler.id

    @property
    def owner(self) -> str:
        """Return the user; empty where there are none."""
        rights = self.handler.rights
        return "" if rights is None else rights.user.name

    @property
    def is_admin(self) -> bool:
        """Whether he may administer this hub."""
        return is_admin(self.handler)

    @property
    def frame_limit_bytes(self) -> int:
        """The largest frame that he takes."""
        return self.handler.frame_limit_bytes

    @property
    def is_gone(self) -> bool:
        """Whether his connection is over."""
        return self.handler.closed

    def reads(self, prefixes: tuple[str, ...]) -> bool:
        """Return whether he may read the journal under all of these prefixes."""
        rights = self.handler.rights
        return rights is None or all(rights.may_all(Action.JOURNAL, prefix) for prefix in prefixes)

    def check_reads(self, prefixes: tuple[str, ...]) -> None:
        """See to it that he may read that; raises as `check_prefixes_granted`."""
        check_prefixes_granted(self.handler.rights, Action.JOURNAL, prefixes)

    def check_publishes(self, topic: str) -> None:
        """See to it that he may publish there; raises as `check_granted`."""
        check_granted(self.handler.rights, Action.PUBLISH, topic)
