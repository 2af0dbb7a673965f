"""`Reloading`: settings, certificates and users are read again while the hub runs, all of them or none.

They are read and compiled in a thread, which takes a second for a policy of 100,000 rules; then all are swapped in one
turn, and all connections are reviewed. One reload at a time: a request meanwhile fails, a signal meanwhile is done
afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import structlog

from hub.errors import BusyError, HubError, InternalError, UsageError
from hub.requests.hub_services import Later
from peers.admin.steps import awaited
from peers.daemon.daemon import Daemon, Prepared
from peers.daemon.reviewing import identities, would_close
from peers.daemon.service_manager import ServiceManager
from peers.daemon.sources import Loaded
from peers.server.audit import By
from peers.server.memory import undisturbed

MANY: Final = 10  # Connections that any reload may close


class Reloaded(NamedTuple):
    """Result of a reload."""

    changed: list[str]  # Keys that have changed and are in force
    needs_restart: list[str]  # Keys that have changed but need a restart
    closed: int  # Connections that were closed, as their users are gone


class Reloading:
    """Reloads a daemon: calls `load` in a thread, and `applied` once new settings are in force."""

    def __init__(
        self,
        daemon: Daemon,
        load: Callable[[], Loaded],
        applied: Callable[[], object],
        manager: ServiceManager | None = None,
        *,
        forced: bool = False,
    ) -> None:
        self._daemon = daemon
        self._load = load
        self._applied = applied
        self._forced = forced  # A reload may close any number of connections, as another process has judged it
        self._manager = manager or ServiceManager()
        self._task: asyncio.Task[None] | None = None  # The reload that is under way
        self._is_due = False  # Whether a signal has come meanwhile
        self._log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")

    def signal(self) -> None:
        """Handle SIGHUP: reload now, or once the present reload is done."""
        if self._task is None:
            self._begin(None, Later(), forced=self._forced)
        else:
            self._is_due = True

    def answer(self, handler: By | None, value: Any) -> Later:
        """Answer a request to `$hub/reload` with a `Reloaded`."""
        if value is not None and not (isinstance(value, dict) and value.keys() <= {"force"}):
            raise UsageError('null is expected, or {"force": true}')
        if self._task is not None:
            raise BusyError("a reload is under way: ask again")
        later = Later()
        self._begin(handler, later, forced=bool(value and value.get("force")))
        return later

    async def cancel(self) -> None:
        """Give up: the hub stops."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self, by: By | None, later: Later, *, forced: bool) -> None:
        self._manager.reloading()
        self._task = self._daemon.server.loop.create_task(self._run(by, later, forced=forced), name="reload")

    async def _run(self, by: By | None, later: Later, *, forced: bool) -> None:
        try:
            reloaded = await self._reload(forced=forced)
        except UsageError as error:
            self._log.error("settings not reloaded, the old ones stay", reason=str(error))
            self._daemon.server.audit.did(by, "reload", failed=str(error))
            self._end(later, error)
        except Exception as error:  # noqa: BLE001 -- the asker must not wait on
            self._log.exception("a reload failed because of a bug, please report it", error=repr(error))
            self._end(later, InternalError("a bug of the hub, please report it; its log has more"))
        else:
            log = self._log.warning if reloaded.needs_restart else self._log.info
            log("settings reloaded", applied=reloaded.changed, needs_restart=reloaded.needs_restart)
            self._daemon.server.audit.did(by, "reload", **reloaded._asdict())
            self._end(later, None, reloaded)

    async def _reload(self, *, forced: bool) -> Reloaded:
        daemon = self._daemon
        with undisturbed():
            prepared = await asyncio.to_thread(lambda: daemon.prepare(self._load()))
        was_open = daemon.server.access.is_open
        if not (forced or was_open):
            await self._check(prepared)
        changed, needs_restart = daemon.take_over(prepared)
        self._applied()
        closed = await daemon.review(was_open=was_open)
        return Reloaded(changed, needs_restart, closed)

    async def _check(self, prepared: Prepared) -> None:
        """Raise a `UsageError` if the new policy would close too many connections, perhaps by mistake."""
        server = self._daemon.server
        parts = [identities(server)] if server.whole is None else await awaited(server.whole.ask("identities"))
        closed, connected = would_close(server, prepared.users, parts)
        percent = prepared.settings.access.reload_closes
        if closed > MANY and closed * 100 > percent * connected:
            raise UsageError(
                f"{closed} of {connected} connections would be closed, as their users are gone, which is more than "
                f"access.reload_closes = {percent} %: if that is meant, use `hub reload --force`, or raise it"
            )

    def _end(self, later: Later, error: HubError | None, reloaded: Reloaded | None = None) -> None:
        self._task = None
        self._manager.ready("" if error is None else f"reload rejected: {error}")
        if error is not None:
            later.fail(error)
        elif reloaded is not None:
            later.give(reloaded._asdict())
        if self._is_due:
            self._is_due = False
            self.signal()
