"""`RealPeers`: peer hubs that are hubs: processes of `hub run --peer`, each with a client of its own that subscribes.

Beside the scripted links of `peers.bench.bystander`, to show that those are no easier on the hub. Each costs the
machine about 45 MB and half a second of CPU to start.

Owner of the state: the command.
"""

from __future__ import annotations

from collections.abc import Callable

from peers.bench.errors import BenchError
from peers.bench.orders import Done, Populate
from peers.bench.running_hub import RunningHub
from peers.bench.worker import Worker

__all__ = ["RealPeers"]

_CONNECT_S = 30.0


class RealPeers:
    """Hubs that link with the one that is measured.

    Args:
        url: Of the hub that is measured.
        clients: A bystander of their own, whose subscribers are the peers' clients; stopped by the caller.
        place: Binds a process to the CPUs of the load.
    """

    def __init__(self, url: str, clients: Worker, place: Callable[[int], None]) -> None:
        self._url = url
        self._clients = clients
        self._place = place
        self._hubs: list[RunningHub] = []

    def populate(self, count: int) -> None:
        """Have so many."""
        while len(self._hubs) < count:
            hub = RunningHub.start(("tcp",), ("--peer", self._url))
            self._place(hub.pid)
            self._hubs.append(hub)
            self._connect(len(self._hubs), hub.url("tcp"))
        if len(self._hubs) > count:
            self._connect(count, self._url)
            self.stop(count)

    def stop(self, keep: int = 0) -> None:
        """End those beyond the first `keep`."""
        while len(self._hubs) > keep:
            self._hubs.pop().stop()

    def _connect(self, clients: int, url: str) -> None:
        self._clients.order(Populate(clients, 0, idle_url=url))
        answer = self._clients.take(_CONNECT_S)
        if not isinstance(answer, Done):
            raise BenchError(f"the clients of peer hubs answered {answer}")
