"""`Refusal`: why somebody is not recognised, for the log and for counters; he himself is not told.

Owner: nobody. It never leaves `peers.users`: `peers.users.access` makes a `NotRecognisedError` of it.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Reason", "Refusal"]


class Reason(Enum):
    """Kinds of failures, as `/metrics` counts them."""

    NOTHING = "nothing"
    """He shows nothing, and nobody is anonymous here."""
    CERTIFICATE = "certificate"
    """His certificate is nobody's."""
    TOKEN = "token"  # noqa: S105 -- a kind, no secret
    """His token is none of this hub's."""
    JWT = "jwt"
    """His JWT is not right."""
    ENDED = "ended"
    """What he shows was right once."""
    USER = "user"
    """What he shows is right, but the policy knows neither him nor a role of his."""


class Refusal(Exception):  # noqa: N818 -- a verdict, not a failure
    """Somebody is not recognised.

    Args:
        reason: Which kind.
        text: Exactly what was wrong, for whoever runs the hub; never with a secret, or what a far side has written.
    """

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(reason, text)
        self.reason = reason
        self.text = text
