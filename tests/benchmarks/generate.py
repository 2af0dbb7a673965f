"""The load generator's process: it reads a job from standard input, and writes figures to standard output, both JSON.

```
< {"workload": "fan-out", "dialect": "nats", "ports": [4222, 0], "pid": 71, "duration_s": 1.5, "cpu": 1,
   "ca": ""}
> {"figures": {"cpu_us": 0.07, ...}}          or  {"wrong": "..."}  or  {"failed": "..."}
```

`compare.py` starts it, one for each run, so that no run inherits the memory or the garbage of the one before.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from generators.dialect import Dialect
from generators.hub import HubDialect
from generators.hub_websocket import HubJsonDialect, HubWebSocketDialect
from generators.job import Job, carry_out
from generators.mqtt import MqttDialect
from generators.nats import NatsDialect
from generators.receiver import WrongBytesError
from generators.redis import RedisDialect
from generators.relay import RelayDialect
from generators.zeromq import ZeromqDialect
from workloads import WORKLOADS, Workload

from peers.bench.errors import BenchError
from peers.bench.worker import raise_descriptor_limit


def dialect(name: str, ports: list[int], workload: Workload, ca: str) -> Dialect:
    """Return the dialect with that name, for one running broker, with TLS if there is an authority."""
    port, second = ports
    through = second if workload.websocket else 0
    makers: dict[str, Callable[[], Dialect]] = {
        "hub": lambda: HubWebSocketDialect(port, second) if workload.websocket else HubDialect(port, 0, ca),
        "hub-batch": lambda: HubDialect(port, workload.size_bytes, ca),
        "hub-json": lambda: HubJsonDialect(port, second),
        "nats": lambda: NatsDialect(port, through, ca),
        "mosquitto": lambda: MqttDialect(port, through),
        "redis": lambda: RedisDialect(port),
        "relay": lambda: RelayDialect(port),
        "zeromq": lambda: ZeromqDialect(port, second),
    }
    return makers[name]()


def main() -> None:
    """Carry out one job."""
    order: dict[str, Any] = json.load(sys.stdin)
    if order["cpu"] is not None:
        os.sched_setaffinity(0, {order["cpu"]})
    raise_descriptor_limit()
    workload = next(one for one in WORKLOADS if one.name == order["workload"])
    spoken = dialect(order["dialect"], order["ports"], workload, order["ca"])
    job = Job(workload, spoken, order["pid"], order["duration_s"])
    gc.disable()  # nothing here makes cycles; a collection would be in the latencies
    result: dict[str, Any]
    try:
        result = {"figures": carry_out(job)}
    except WrongBytesError as error:
        result = {"wrong": str(error)}
    except (BenchError, OSError) as error:
        result = {"failed": f"{type(error).__name__}: {error}"}
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
