"""`Entrance`: charges connections to their users, and turns away those that are one too many.

Owner: the core. Invariants: a handler with rights has its user's share from `enter` to `leave`, or is closed as the
turn ends, and not before: while it is being attached, whoever attaches it still counts on it.

Cost: O(1) a handler.

Not here: how many connections a user may have (`hub.quotas`), who he is (`peers.users`).
"""

from __future__ import annotations

from hub.errors import RejectedError
from hub.handler import Handler
from hub.policy.grants import User
from hub.quotas.quotas import Quotas
from hub.turn import Turn

__all__ = ["Entrance"]


class Entrance:
    """Who has a share, and who is turned away.

    Args:
        quotas: What users hold.
        turn: Asked for when somebody is turned away.
    """

    __slots__ = ("_quotas", "_turn", "_turned_away")

    def __init__(self, quotas: Quotas, turn: Turn) -> None:
        self._quotas = quotas
        self._turn = turn
        # Handlers whose users have too many connections, with what they are told as the turn ends.
        self._turned_away: list[tuple[Handler, RejectedError]] = []

    def enter(self, handler: Handler, user: User) -> None:
        """Give a handler its user's share; what it does in this turn is nobody's where it is one too many.

        A handler whose connection was charged already brings the share.
        """
        if handler.share is not None:
            self._quotas.give_roles(handler.share, user.roles)
            return
        try:
            handler.share = self._quotas.join(user.name, user.roles)
        except RejectedError as error:
            self._turned_away.append((handler, error))
            self._turn.request()

    def leave(self, handler: Handler) -> None:
        """Give a connection back to its user, if it was charged to him."""
        if handler.share is not None:
            self._quotas.leave(handler.share)

    def turn_away(self) -> None:
        """Close those whose users have too many connections, as the turn ends."""
        if not self._turned_away:
            return
        turned_away, self._turned_away = self._turned_away, []
        for handler, error in turned_away:
            handler.close(error.code, error.text)
