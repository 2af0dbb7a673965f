"""What a request ends with that has no value for an answer: an error for each status, and those that arise here.

Errors are made one for each who waits, and never raised twice: a traceback would grow with each raise. Not here: which
request ends with what (`peers.client.requests`).
"""

from __future__ import annotations

from typing import Any

from hub.errors import (
    HubError,
    NoResponderError,
    NotAllowedError,
    RequestError,
    RequestFailedError,
    RequestOverflowError,
    RequestTimeoutError,
    RequestTooBigError,
    ResponderGoneError,
)
from hub.request_frame import Status

__all__ = ["another", "error_of", "readable", "timed_out", "unanswered", "unfailed"]

_ERRORS: dict[int, type[RequestError]] = {
    Status.FAILED: RequestFailedError,
    Status.NO_RESPONDER: NoResponderError,
    Status.RESPONDER_GONE: ResponderGoneError,
    Status.TIMED_OUT: RequestTimeoutError,
    Status.OVERFLOW: RequestOverflowError,
    Status.NOT_ALLOWED: NotAllowedError,
    Status.TOO_BIG: RequestTooBigError,
}


def unfailed(answers: list[Any]) -> list[Any]:
    """Return answers; raise the first that is an error."""
    for answer in answers:
        if isinstance(answer, HubError):
            raise answer
    return answers


def error_of(status: int, text: str) -> RequestError:
    """Make the error for a status that is not OK."""
    return _ERRORS.get(status, RequestError)(status, text)


def timed_out() -> RequestError:
    """Return the error of a request that has waited for a connection until its time was up."""
    return RequestTimeoutError(Status.TIMED_OUT, "there was no connection within the time that the request gives")


def unanswered() -> RequestError:
    """Return the error of a request that the hub has forgotten."""
    return RequestTimeoutError(Status.TIMED_OUT, "the hub has not answered, not even that there is no reply")


def another(error: HubError) -> HubError:
    """Return an error for one more of those who get the same."""
    return type(error)(*error.args)


def readable(answer: Any) -> Any:
    """Return an answer; the error of a failed request where the answer is what says that it cannot be read."""
    if isinstance(answer, ValueError):
        return RequestFailedError(Status.FAILED, f"the reply cannot be read: {answer}")
    return answer
