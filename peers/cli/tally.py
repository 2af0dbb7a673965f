"""`Tally`: counts messages, and tells how fast they come. No I/O and no clock: times are arguments."""

from __future__ import annotations

from peers.cli.texts import counted

__all__ = ["Tally"]


class Tally:
    """Counts messages, and tells how many there are and how fast they come.

    Args:
        now_s: The time now, by any clock that does not go back.
    """

    __slots__ = ("_since_s", "_told_messages", "_told_s", "messages")

    def __init__(self, now_s: float) -> None:
        # How many messages there were; raised by whoever counts.
        self.messages = 0
        # When counting began, and when it was asked for the rate last.
        self._since_s = self._told_s = now_s
        # How many messages there were by then.
        self._told_messages = 0

    def tell(self, now_s: float) -> str:
        """Return the count, and the rate since this was last asked."""
        passed_s, new = now_s - self._told_s, self.messages - self._told_messages
        self._told_s, self._told_messages = now_s, self.messages
        return f"{counted(self.messages, 'message')}  {new / passed_s if passed_s > 0 else 0:,.0f}/s"

    def total(self, now_s: float) -> str:
        """Return the count, the time and the mean rate."""
        passed_s = now_s - self._since_s
        rate = self.messages / passed_s if passed_s > 0 else 0
        return f"{counted(self.messages, 'message')} in {passed_s:.1f} s, {rate:,.0f}/s"
