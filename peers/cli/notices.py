"""`Notices`: losses, refusals, lost and new connections, on standard error; at most one line of losses a second."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from hub.errors import PeerError
from peers.cli.contexts import HubFlags, check_client_name, text_or_path
from peers.cli.texts import counted, escaped
from peers.client import BadMessage, Client, Options, connect
from peers.client.token_source import Token, read_token
from peers.wire.hello import Hello, QueueWish

_TELL_S = 1.0


def shown_token(file: str) -> Token:
    """Return the token, or a function that reads its file again for each connection; raise `FlagError`."""
    text, path = text_or_path(file)
    return partial(read_token, path) if path else text


class Notices:
    """Prints events of a client for one command. Call `finish` at the end."""

    def __init__(self, command: str, *, reads_journal: bool = False) -> None:
        self._command = command
        self._reads_journal = reads_journal  # whether losses are records that were deleted from the journal
        self._overflow = "its overflow policy"
        self._connections = 0
        self._untold_dropped = 0
        self._told_s = -_TELL_S
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.dropped_messages = 0
        self.rejection = ""  # of the first message that the hub refused
        self.bad_messages = 0
        # The messages of the client library's log are printed here in this command's words.
        logging.getLogger("peers.client").propagate = False
        logging.getLogger("peers.client").addHandler(logging.NullHandler())

    def options(self, hub: HubFlags, queue: QueueWish | None = None, *, narrow: bool = False) -> Options:
        """Return options for `connect`; raise `FlagError` if no hub would take the name, or there is no token."""
        name = hub.name or f"hub {self._command}"
        check_client_name(name)
        return Options(
            name=name,
            ca=hub.tls.ca,
            certificate=hub.tls.certificate,
            key=hub.tls.key,
            token=shown_token(hub.token_file),
            queue=queue,
            narrow=narrow,
            on_connect=self._connected,
            on_disconnect=lambda reason: self.say(f"connection lost, trying again: {reason}"),
            on_dropped=self._dropped,
            on_cut=self._cut,
            on_rejected=self._rejected,
            on_bad_message=self._bad_message,
        )

    @asynccontextmanager
    async def connected(
        self, hub: HubFlags, queue: QueueWish | None = None, *, narrow: bool = False, once: bool = False
    ) -> AsyncIterator[Client]:
        """Connect while the block lasts, and print the totals at its end. Arguments and errors are those of `options`.

        A client for one question (`once`) does not reconnect, as the question fails with the connection.
        """
        options = self.options(hub, queue, narrow=narrow)
        if once:
            options["on_disconnect"] = lambda _: None
            options["reconnect"] = False
        async with connect(hub.url, **options) as client:
            try:
                yield client
            finally:
                self.finish()

    def say(self, text: str) -> None:
        print(f"hub {self._command}: {escaped(text)}", file=sys.stderr, flush=True)

    def finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        told_before = self.dropped_messages != self._untold_dropped
        self._tell_dropped()
        if told_before:
            self.say(f"{counted(self.dropped_messages, 'message')} lost in all")
        if self.bad_messages:
            self.say(f"{counted(self.bad_messages, 'message')} not shown: no msgpack")

    def _connected(self, hello: Hello) -> None:
        self._connections += 1
        if hello.queue is not None and hello.queue.overflow is not None:
            self._overflow = hello.queue.overflow.value
        if self._connections > 1:
            self.say(f"connected again to hub {hello.name}")

    def _dropped(self, count: int) -> None:
        self.dropped_messages += count
        self._untold_dropped += count
        if self._timer is None:
            self._timer = self._loop.call_at(self._told_s + _TELL_S, self._tell_dropped)

    def _cut(self, lost: range) -> None:
        self.say(f"records {lost.start} to {lost.stop - 1} are lost; others replace them, from {lost.start} on")

    def _tell_dropped(self) -> None:
        self._timer = None
        self._told_s = self._loop.time()
        count, self._untold_dropped = self._untold_dropped, 0
        if count:
            cause = f"lost by {self._overflow}; read faster, or ask for a larger queue"
            if self._reads_journal:
                cause = "deleted from the journal before they were read; read faster, or keep more (journal.keep_bytes)"
            self.say(f"{counted(count, 'message')} {cause}")

    def _rejected(self, error: PeerError) -> None:
        self.rejection = self.rejection or str(error)

    def _bad_message(self, bad: BadMessage) -> None:
        self.bad_messages += bad.messages
