"""`HubServices`: requests that the hub itself answers, under `$hub/`.

Each target has a function. It takes the handler that asks and the value of its request, and returns the answer's value,
or a `Later` if that takes more than a turn, or raises a `HubError` with the reason (a `RequestError` with its status).
Services that change the hub, or show other users, are for admins; in a hub without rights every client is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgpack

from hub.errors import CloseCode, HubError, RejectedError, RequestError
from hub.handlers.handler import Handler
from hub.messages.batch import decode_values, encode_value
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_SHARED, KIND_MESSAGES, Frame
from hub.messages.request_frame import FLAG_NAMED, Request, Status, as_bytes
from hub.scheduling.scheduler import Scheduler
from hub.topics import RESERVED


class Later:
    """An answer that is given in a later turn."""

    __slots__ = ("_then", "error", "value")

    def __init__(self) -> None:
        self.value: Any = None  # The answer, unless there is an error
        self.error: HubError | None = None  # Why there is no value
        self._then: Callable[[], object] | None = None
        """Called once it is there, in that turn. The requester sets it before."""

    def then(self, act: Callable[[], object]) -> None:
        """Call `act` once there is an answer; at the earliest in the next turn, as the service has only begun."""
        self._then = act

    def give(self, value: Any) -> None:
        self.value = value
        self._tell()

    def fail(self, error: HubError) -> None:
        self.error = error
        self._tell()

    def _tell(self) -> None:
        if self._then is not None:
            act, self._then = self._then, None
            act()


# Most values to the hub itself in one frame, and in one turn: an answer may be a thousand names (1 ms)
VALUES_LIMIT = 16


Function = Callable[[Handler, Any], Any]  # Answers a value, of the handler that asks, with a value, or with a `Later`

# Takes status, values and flags of the answer to all requests of a frame: if one fails, all do
Reply = Callable[[Status, bytes, int], object]


def is_admin(handler: Handler) -> bool:
    return handler.rights is None or handler.rights.is_admin


class _Service(NamedTuple):
    function: Function
    for_admins: bool
    judges_itself: bool


class HubServices:
    """Functions of the hub, by the target that they answer."""

    __slots__ = ("_left", "_scheduler", "_services", "_turn", "_when_gone")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._services: dict[str, _Service] = {}  # By target
        # How many values are still answered in a turn, and the number of that turn. Every answer takes from it.
        self._left, self._turn = VALUES_LIMIT, 0
        self._when_gone: list[Callable[[Handler], object]] = []  # Called with each handler that has left

    def add(self, target: str, function: Function, *, for_admins: bool = False, judges_itself: bool = False) -> None:
        """Add a service.

        Args:
            target: The whole topic.
            function: Answers.
            for_admins: Only admins are answered.
            judges_itself: No grant is needed to ask this: the function rejects by other grants.
        """
        self._services[target] = _Service(function, for_admins, judges_itself)

    def judges_itself(self, target: bytes) -> bool:
        """Return whether no grant is needed to ask this."""
        service = self._services.get(target.decode(errors="replace"))
        return service is not None and service.judges_itself

    def is_for_admins(self, target: str) -> bool:
        service = self._services.get(target)
        return service is not None and service.for_admins

    def open_to(self, handler: Handler) -> list[str]:
        """Return the targets that a handler would be answered, in their order."""
        rights = handler.rights
        return [
            target
            for target, service in sorted(self._services.items())
            if rights is None
            or rights.is_admin
            or service.judges_itself
            or (not service.for_admins and rights.may_ask(target.encode(), as_peer=False))
        ]

    def when_gone(self, act: Callable[[Handler], object]) -> None:
        """Call `act` with each handler that leaves, for a service that keeps state for requesters."""
        self._when_gone.append(act)

    def forget(self, handler: Handler) -> None:
        for act in self._when_gone:
            act(handler)

    def answer(self, handler: Handler, request: Request, reply: Reply) -> None:
        """Answer all requests of a frame, now or in a later turn: `reply` is called once."""
        target = request.target.decode(errors="replace")
        service = self._services.get(target)
        if service is None:
            return _fail(reply, request, Status.NO_RESPONDER, "the hub has no service for this topic")
        if service.for_admins and not is_admin(handler):
            return _fail(reply, request, Status.NOT_ALLOWED, f"{target} is for admins")
        if request.requests > VALUES_LIMIT:
            text = f"{request.requests} values in one frame, the hub answers at most {VALUES_LIMIT}"
            return _fail(reply, request, Status.FAILED, text)
        if self._turn != self._scheduler.turns:
            self._left, self._turn = VALUES_LIMIT, self._scheduler.turns
        if request.requests > self._left:
            return _fail(reply, request, Status.OVERFLOW, "too many requests to the hub at once: retry")
        self._left -= request.requests
        self._scheduler.request()  # a turn that gives a whole share
        return _answer(service.function, handler, request, reply)


def _answer(function: Function, handler: Handler, request: Request, reply: Reply) -> None:
    plain = as_bytes(request) if request.flags & FLAG_SHARED else request
    if plain is None:
        return _fail(reply, request, Status.FAILED, "the values are not there any more")
    try:
        values = decode_values(Frame(KIND_MESSAGES, plain.flags, b"", plain.values))
        results = [function(handler, value) for value in values]
    except (HubError, ValueError) as error:
        return _fail_for(reply, request, error)
    waiting = [result for result in results if isinstance(result, Later)]
    if not waiting:
        return _give(reply, request, results)
    left = len(waiting)

    def go_on() -> None:
        nonlocal left
        left -= 1
        if not left:
            _give(reply, request, results)

    for later in waiting:
        later.then(go_on)
    return None


def _give(reply: Reply, request: Request, results: list[Any]) -> None:
    answers: list[bytes] = []
    try:
        for result in results:
            if isinstance(result, Later) and result.error is not None:
                raise result.error
            answers.append(encode_value(result.value if isinstance(result, Later) else result))
    except (HubError, ValueError) as error:
        return _fail_for(reply, request, error)
    is_batch = request.flags & FLAG_BATCH
    reply(Status.OK, BATCH_COUNT.pack(len(answers)) + b"".join(answers) if is_batch else answers[0], is_batch)
    return None


def _fail_for(reply: Reply, request: Request, error: Exception) -> None:
    status = Status(error.status) if isinstance(error, RequestError) else Status.FAILED
    _fail(reply, request, status, str(error))


def _fail(reply: Reply, request: Request, status: Status, text: str) -> None:
    reason: bytes = msgpack.packb(text)
    is_batch = request.flags & FLAG_BATCH
    reply(status, BATCH_COUNT.pack(request.requests) + reason if is_batch else reason, is_batch)


# Questions of one hub of the mesh to another, by its id: `$hub/at/ID/KIND`.


AT = RESERVED + "at/"  # The beginning of targets at another hub
_AT = AT.encode()
_ID_DIGITS = 32
Answer = Callable[[Status, bytes], object]  # Takes the status of the answer, and its value in msgpack


class Questions(NamedTuple):
    """How one kind of question is treated. A `RejectedError` is answered with its text."""

    # Called with the link over which it was asked, the value in msgpack, and the callback for the answer
    answer: Callable[[Handler, bytes, Answer], object]

    # Called with the handler that asks, the link that leads on, and the value; returns the value that goes on
    pass_on: Callable[[Handler, Handler, bytes], bytes]


def find_question(questions: Mapping[str, Questions], request: Request) -> tuple[bytes, Questions, bytes]:
    """Return the hub that is asked, how a question of this kind is treated, and its value.

    Raises:
        RejectedError: It is no such question.
    """
    digits, _, what = request.target[len(_AT) :].partition(b"/")
    found = questions.get(what.decode(errors="replace"))
    plain = as_bytes(request) if request.flags & FLAG_SHARED else request
    try:
        hub = bytes.fromhex(digits.decode()) if len(digits) == _ID_DIGITS else b""
    except ValueError:
        hub = b""
    if found is None or not hub or plain is None or plain.flags:
        raise RejectedError(CloseCode.BAD_DATA, "the hub has no service for this topic")
    return hub, found, plain.values


def is_directed(request: Request) -> bool:
    return request.target.startswith(_AT) and not request.flags & FLAG_NAMED


def target_at(hub: bytes, what: str) -> bytes:
    return f"{AT}{hub.hex()}/{what}".encode()
