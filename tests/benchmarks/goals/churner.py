"""A process with one client that subscribes and unsubscribes, until its standard input ends.

    python -m tests.benchmarks.goals.churner URL PAIRS_PER_S

Each request is a frame of its own, and the hub confirms it. The process sends what is due every millisecond; of its
prefixes `_KEPT` are alive at a time. It says "churning" when it begins, and in the end, as JSON, what it has done.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from peers.bench.line import Line, dial
from peers.bench.messages import Layout
from peers.bench.running_hub import child_environment
from peers.bench.worker import BenchError
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind

_KEPT = 100
_LAYOUT = Layout("/churn/", 1, 16, 1)
"""The layout of messages that never come."""


class Churned(msgspec.Struct):
    requests: int = 0
    confirmed: int = 0
    elapsed_s: float = 0.0


@contextmanager
def churning(url: str, pairs_per_s: float) -> Iterator[Churned]:
    churned = Churned()
    command = [sys.executable, "-m", "tests.benchmarks.goals.churner", url, str(pairs_per_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment())
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise BenchError("the client that churns did not start")
        yield churned
    finally:
        said, _ = process.communicate()
        for name, value in msgspec.json.decode(said or b"{}", type=dict[str, float]).items():
            setattr(churned, name, value)


class _Churner:
    def __init__(self, line: Line, pairs_per_s: float) -> None:
        self._line = line
        self._pairs_per_s = pairs_per_s
        self._began_s = time.monotonic()
        self._pairs = 0
        self._requests = 0
        self._confirmed = 0
        self._alive: deque[str] = deque()

    def run(self) -> Churned:
        """Churn until standard input ends; return what was done once all of it is confirmed."""
        poll = select.poll()
        poll.register(self._line.fileno(), select.POLLIN)
        poll.register(0, select.POLLIN | select.POLLHUP)
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(1000 * self._wait_s())]
            if 0 in ready:
                poll.unregister(0)
                break
            if ready:
                self._read()
            self._send()
        elapsed_s = time.monotonic() - self._began_s
        while self._confirmed < self._requests:
            poll.poll()
            self._read()
        return Churned(self._requests, self._confirmed, elapsed_s)

    def _wait_s(self) -> float:
        return max(0.0, self._began_s + (self._pairs + 1) / self._pairs_per_s - time.monotonic())

    def _send(self) -> None:
        due = int((time.monotonic() - self._began_s) * self._pairs_per_s)
        requests = []
        while self._pairs < due:
            self._pairs += 1
            prefix = f"{_LAYOUT.prefix}{self._pairs:09}/"
            self._alive.append(prefix)
            requests.append(self._request(Kind.SUBSCRIBE, prefix))
            if len(self._alive) > _KEPT:
                requests.append(self._request(Kind.UNSUBSCRIBE, self._alive.popleft()))
        if requests:
            self._line.socket.sendall(b"".join(requests))

    def _request(self, kind: Kind, prefix: str) -> bytes:
        self._requests += 1
        return encode_subscription(kind, [prefix], self._requests)

    def _read(self) -> None:
        self._confirmed += sum(control.word == "confirmed" for control in self._line.listen())


def main() -> None:
    line = dial(sys.argv[1], _LAYOUT, "bench churner")
    line.socket.settimeout(None)
    print("churning", flush=True)  # noqa: T201 -- a line that the benchmark waits for
    print(msgspec.json.encode(_Churner(line, float(sys.argv[2])).run()).decode())  # noqa: T201 -- the answer


if __name__ == "__main__":
    main()
