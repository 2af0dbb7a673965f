"""Shared by services of the hub: a check of the question (`service`), and answers in steps (`in_steps`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from hub.errors import HubError, InternalError, UsageError
from hub.requests.hub_services import Later
from peers.server.server import Server

T = TypeVar("T")
Q = TypeVar("Q")
Answer = Callable[[Any, Any], Any]
Service = Callable[[Server], Answer]
Work = Generator[Later | None, Any, T]  # Work in steps, which returns an answer


def service(expected: str, kind: type[Q] | None = None) -> Callable[[Callable[[Server, Any, Q], Any]], Service]:
    """Make a service of a function that gets the server, the asker and the question.

    `expected` is for the error of a wrong question. A null has the defaults of `kind`; without it, null alone is right.
    """

    def made(answer: Callable[[Server, Any, Q], Any]) -> Service:
        def of_server(server: Server) -> Answer:
            def checked(asker: Any, value: Any) -> Any:
                if kind is None and value is not None:
                    raise UsageError("expected null")
                try:
                    question: Any = None if kind is None else msgspec.convert({} if value is None else value, kind)
                    return answer(server, asker, question)
                except ValueError as error:
                    raise UsageError(f"expected {expected}: {error}") from error

            return checked

        return of_server

    return made


def in_steps(server: Server, work: Work[Any]) -> Later:
    """Return a `Later` for the value that `work` returns, or the `HubError` that it raises.

    Each `yield` ends a step: the next one is in the next turn, or once the `Later` that was yielded has its value,
    which the `yield` returns, or its error, which it raises.
    """
    later = Later()

    def step(awaited: Later | None = None) -> None:
        try:
            if awaited is not None and awaited.error is not None:
                awaits = work.throw(awaited.error)
            else:
                awaits = work.send(None if awaited is None else awaited.value)
        except StopIteration as end:
            later.give(end.value)
        except HubError as error:
            later.fail(error)
        except Exception as error:
            later.fail(InternalError("a bug of the hub, please report it; its log has more"))
            server.log.exception("a request to the hub failed because of a bug, please report it", error=repr(error))
        else:
            if awaits is None:
                server.after_turn(step)
            else:
                awaits.then(lambda: step(awaits))

    server.after_turn(step)
    return later


def parts_of(server: Server, what: str, value: Any, here: Callable[[], Work[Any]]) -> Work[list[Any]]:
    """Return the answers of all processes of the hub to a question; `here` is the answer of this one."""
    if server.whole is None:
        return [(yield from here())]
    parts: list[Any] = yield server.whole.ask(what, value)
    return parts


async def awaited(answer: Any) -> Any:
    """Return an answer, of a `Later` once it is there, or raise its error."""
    if not isinstance(answer, Later):
        return answer
    there = asyncio.Event()
    answer.then(there.set)
    await there.wait()
    if answer.error is not None:
        raise answer.error
    return answer.value
