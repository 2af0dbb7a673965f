"""`FarClient`: a client of another hub, who uses the named consumers of this one, as his hub describes him.

Owner: `ForHubs`. Invariant: what holds is what the last question of his hub has said, and what the link over which it
came may do now. Cost: as `Grants`, for each of those who grant; they are read anew when they change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hub.errors import CloseCode, RejectedError
from hub.handler import Handler
from hub.policy.grants import allows_by, covers_by
from hub.policy.refusal import check_granted, check_prefixes_granted
from hub.topics import printable
from peers.journal.consumers.question import Granted, Question

__all__ = ["FarClient"]

_FRAME_BYTES: Final = 512 * 1024
"""Answers are no longer than half of this, so that what else is on the links waits little."""


class _Judge(NamedTuple):
    user: str
    reads: Callable[[str], bool]
    publishes: Callable[[str], bool]


class FarClient:
    """One client.

    Args:
        link: The link over which his hub asks.
        question: What it has asked.
    """

    __slots__ = ("_judges", "_link", "_question", "is_gone")

    def __init__(self, link: Handler, question: Question) -> None:
        self._link = link
        self._question = question
        self._judges = _judges(question.granted)
        self.is_gone = False
        """Whether he, or his hub, is connected no more; `ForHubs` says so."""

    @property
    def id(self) -> int:
        """The number of his connection at his hub."""
        return self._question.client

    @property
    def hub(self) -> str:
        """The id of his hub."""
        return self._question.hub.hex()

    def adopt(self, link: Handler, question: Question) -> None:
        """Take what his hub says now."""
        if question.granted != self._question.granted:
            self._judges = _judges(question.granted)
        self._link, self._question = link, question

    @property
    def owner(self) -> str:
        """Return the user that he is at his hub, beneath the one that the link is here, if there are such."""
        rights = self._link.rights
        users = ("" if rights is None else rights.user.name, self._question.user)
        return "/".join(filter(None, users))

    @property
    def is_admin(self) -> bool:
        """Whether he may administer his hub, and the link this one."""
        rights = self._link.rights
        return self._question.is_admin and (rights is None or rights.is_admin)

    @property
    def frame_limit_bytes(self) -> int:
        """The largest frame that all on the way take, and no more than is good for them."""
        return min(_FRAME_BYTES, self._question.frame_bytes, self._link.frame_limit_bytes)

    def reads(self, prefixes: tuple[str, ...]) -> bool:
        """Return whether all on the way grant these prefixes."""
        try:
            self.check_reads(prefixes)
        except RejectedError:
            return False
        return True

    def check_reads(self, prefixes: tuple[str, ...]) -> None:
        """See to it that all on the way grant these prefixes.

        Raises:
            RejectedError: One does not.
        """
        for judge in self._judges:
            for prefix in prefixes:
                if not judge.reads(prefix):
                    raise _refusal("journal", prefix, judge.user)
        check_prefixes_granted(self._link.rights, self._link.acts.seeing, prefixes)

    def check_publishes(self, topic: str) -> None:
        """See to it that all on the way grant a topic.

        Raises:
            RejectedError: One does not.
        """
        for judge in self._judges:
            if not judge.publishes(topic):
                raise _refusal("publish", topic, judge.user)
        check_granted(self._link.rights, self._link.acts.publishing, topic)


def _judges(granted: tuple[Granted, ...]) -> list[_Judge]:
    return [_Judge(one.user, covers_by(one.journal), allows_by(one.publish)) for one in granted]


def _refusal(what: str, topic: str, user: str) -> RejectedError:
    text = f"{what} {printable(topic)}: not granted as a whole to user {printable(user)}"
    return RejectedError(CloseCode.NOT_ALLOWED, text)
