"""`hub consume`: write the messages of a named consumer, each acknowledged once it is written, until Ctrl-C.

With --exec a command runs for each: exit code 0 acknowledges, after any other the message is delivered again later.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from hub.errors import ClosedError
from peers.cli.contexts import DEFAULT_HUB, HubFlags
from peers.cli.notices import Notices
from peers.cli.output import stdout_written
from peers.cli.requests import CommandError, run_command
from peers.cli.sub import JsonFormat, Stop
from peers.cli.texts import FlagError, check_count, check_from, check_positive, counted
from peers.client import ConsumedMessage, ConsumerStream
from peers.client.settings import PREFETCH

_NAK_DELAY_S = 5.0
"""When a message whose command has failed is delivered again, seconds."""

_PROGRESS_S = 1.0
"""How often the hub is informed that a command still runs."""


async def consume(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="Name of the consumer.")],
    /,
    *prefixes: Annotated[str, Parameter(help="Prefixes of its topics; required for a new consumer.")],
    hub: HubFlags = DEFAULT_HUB,
    from_offset: Annotated[
        int | None, Parameter(help="First offset of a new consumer. Default: the next recorded message.")
    ] = None,
    from_time: Annotated[
        datetime | None,
        Parameter(help="The same by time: the first record that is not older. UTC unless a zone is given."),
    ] = None,
    key: Annotated[
        str | None,
        Parameter(
            name="--ordering-key",  # --key is that of TLS
            help="Messages that keep their order: those of one topic (default), all, none, or field:NAME.",
        ),
    ] = None,
    redeliver: Annotated[
        float | None, Parameter(help="Redeliver messages not acknowledged after this time, seconds (30).")
    ] = None,
    deliveries: Annotated[
        int | None, Parameter(help="Give a message up after this number of failures; 0: never.")
    ] = None,
    dead_letters: Annotated[str | None, Parameter(help="Topic for messages that were given up.")] = None,
    exec: Annotated[  # noqa: A002 -- the flag's name
        str | None,
        Parameter(help="Shell command for each message: value on stdin, topic in HUB_TOPIC; exit code 0 acknowledges."),
    ] = None,
    limit: Annotated[int | None, Parameter(help="Stop after this number of messages.")] = None,
    timeout: Annotated[float | None, Parameter(help="Stop after this time without a message, seconds.")] = None,
    remove: Annotated[bool, Parameter(help="Remove the consumer from the hub instead.")] = False,
) -> int:
    """Write recorded messages as JSON lines, each at least once, and acknowledge them once written.

    Exit code 2 if --timeout ends it before --limit is reached.
    """
    check_count("--limit", limit)
    check_positive("--timeout", timeout, "seconds")
    check_positive("--redeliver", redeliver, "seconds")
    since = check_from(from_offset, from_time)
    if not prefixes and any(wish is not None for wish in (key, redeliver, deliveries, dead_letters)):
        raise FlagError("give the prefixes of the consumer with its terms")
    stop = Stop(limit, timeout)

    notices = Notices("consume")
    async with notices.connected(hub) as client:
        if remove:
            was_there = await client.remove_consumer(name)
            if not was_there:
                notices.say(f"there is no consumer {name}")
            return 0 if was_there else 1
        stream = client.consume(
            name,
            *prefixes,
            from_offset=from_offset,
            from_time=since,
            key=key,
            redeliver_s=redeliver,
            deliveries=deliveries,
            dead_letters=dead_letters,
            prefetch=PREFETCH if exec is None else 1,
        )
        async with stream:
            if exec is not None:
                return await _execute(stream, stop, notices, exec)
            return await _write(stream, stop, notices)


async def _write(stream: ConsumerStream, stop: Stop, notices: Notices) -> int:
    lines = JsonFormat(safe=sys.stdout.isatty())
    shown = 0
    try:
        async with stdout_written() as output:
            while (stop.limit_messages is None or shown < stop.limit_messages) and (batch := await _next(stream, stop)):
                await output.write(lines.render(batch))
                await output.flush()
                await stream.ack(*batch)
                shown += len(batch)
    finally:
        if lines.formless_messages:
            notices.say(f"{counted(lines.formless_messages, 'message')} not shown: no JSON form")
    return stop.exit_code(shown)


async def _next(stream: ConsumerStream, stop: Stop) -> list[ConsumedMessage]:
    """Return a batch; with a limit one message, as messages that are taken and not written would have failed."""
    try:
        async with asyncio.timeout(stop.timeout_s):
            return await stream.batch() if stop.limit_messages is None else [await stream.receive()]
    except TimeoutError:
        return []


async def _execute(stream: ConsumerStream, stop: Stop, notices: Notices, command: str) -> int:
    done = 0
    while stop.limit_messages is None or done < stop.limit_messages:
        try:
            async with asyncio.timeout(stop.timeout_s):
                message = await stream.receive()
        except (TimeoutError, ClosedError):
            break
        running = asyncio.ensure_future(run_command(command, message.topic, message.value))
        try:
            while not (await asyncio.wait([running], timeout=_PROGRESS_S))[0]:
                await message.in_progress()
            sys.stdout.buffer.write(running.result())
            sys.stdout.buffer.flush()
        except CommandError as error:
            notices.say(f"{message.topic}, offset {message.offset}: {error}; redelivered in {_NAK_DELAY_S:g} s")
            await message.nak(_NAK_DELAY_S)
        else:
            await message.ack()
            done += 1
        finally:
            running.cancel()
    return stop.exit_code(done)
