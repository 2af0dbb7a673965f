"""The ways in which a service's function is called: `Each` with one request, `Batches` with all that came together.

What the function returns is the reply; what it raises, or what has no msgpack form, is a failure of the requests that
it concerns, and of no others. No state. Not here: which calls run and which wait (`peers.client.service`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hub.request_frame import TRANSACTIONS
from peers.client.replies import Replies
from peers.client.service import Asking, Run, Service, ServiceRequest
from peers.client.values import InvalidValueError

__all__ = ["Batches", "Each"]

_request = partial(tuple.__new__, ServiceRequest)  # `ServiceRequest(...)` costs twice as much


class Each:
    """The way of a function that gets one request.

    Args:
        function: Gets a `ServiceRequest`, returns the reply, or something to be awaited for it.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[ServiceRequest], Any]) -> None:
        self._function = function

    def answer(self, service: Service, asking: Asking, replies: Replies) -> None:
        """Call the function for each request."""
        function, topic, begun = self._function, asking.topic, 0
        answers: list[Any] = []
        for at, value in enumerate(asking.values):
            try:
                if isinstance(value, ValueError):
                    raise value  # noqa: TRY301 -- as if the function had found it
                answer = function(_request((topic, value)))
            except Exception as error:  # noqa: BLE001 -- of the caller's function: whoever asked is told
                self._put(service, asking.first + begun, answers, replies)
                answers, begun = [], at + 1
                service.fail((asking.first + at) % TRANSACTIONS, 1, error, replies)
                continue
            if hasattr(answer, "__await__"):
                if answers:
                    self._put(service, asking.first + begun, answers, replies)
                    answers = []
                begun = at + 1
                service.start(Run((asking.first + at) % TRANSACTIONS, 1, answer, replies))
            else:
                answers.append(answer)
        self._put(service, asking.first + begun, answers, replies)

    @staticmethod
    def _put(service: Service, first: int, answers: list[Any], replies: Replies) -> None:
        """Answer with what the function has returned, one by one where not all of it can be sent."""
        if not answers:
            return
        try:
            replies.put(first % TRANSACTIONS, answers)
        except InvalidValueError as error:
            if len(answers) == 1:
                service.fail(first % TRANSACTIONS, 1, error, replies)
                return
            for at, answer in enumerate(answers):
                Each._put(service, first + at, [answer], replies)

    def finish(self, service: Service, run: Run, result: Any) -> None:
        """Answer the one request of a call."""
        try:
            run.replies.put_one(run.first, result)
        except InvalidValueError as error:
            service.fail(run.first, 1, error, run.replies)


class Batches:
    """The way of a function that gets several requests at once.

    Args:
        function: Gets the values of a frame, returns the replies in their order, or something to be awaited for them.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[list[Any]], Any]) -> None:
        self._function = function

    def answer(self, service: Service, asking: Asking, replies: Replies) -> None:
        """Call the function once for all requests of a frame."""
        first, count = asking.first, len(asking.values)
        try:
            bad = next((value for value in asking.values if isinstance(value, ValueError)), None)
            if bad is not None:
                raise bad  # noqa: TRY301 -- as if the function had found it
            answers = self._function(asking.values)
        except Exception as error:  # noqa: BLE001 -- of the caller's function: whoever asked is told
            service.fail(first, count, error, replies)
            return
        if hasattr(answers, "__await__"):
            service.start(Run(first, count, answers, replies))
        else:
            self.finish(service, Run(first, count, answers, replies), answers)

    def finish(self, service: Service, run: Run, result: Any) -> None:
        """Answer all requests of a call."""
        try:
            if not isinstance(result, list | tuple) or len(result) != run.requests:
                text = f"a function of {run.requests} values must return a list of as many replies"
                raise InvalidValueError(text)  # noqa: TRY301 -- as if they could not be sent
            run.replies.put(run.first, result)
        except InvalidValueError as error:
            service.fail(run.first, run.requests, error, run.replies)
