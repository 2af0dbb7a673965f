"""`measure`: one run: start a broker on its CPU, let a load generator on another one do its work, end both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokers.broker import BrokerError, RunningBroker
from contestants import Contestant
from generators.tls import CIPHER_CONFIGURATION
from workloads import Workload

__all__ = ["Placement", "Run", "measure", "placement"]

_GENERATOR = Path(__file__).with_name("generate.py")
_LIMIT_S = 120.0
"""How long one run may take, beside what it was asked to last."""

_PROFILE_RATE = "400"


@dataclass(frozen=True, slots=True)
class Placement:
    """Which CPU is whose; None stands for any."""

    server: int | None
    generator: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """One run and what came of it."""

    workload: str
    contestant: str
    repeat: int
    figures: dict[str, float] = field(default_factory=dict)
    wrong: str = ""
    """What was seen, if messages were lost, repeated, exchanged or damaged."""
    failed: str = ""
    """Why it did not come to an end, if it did not."""


def placement() -> Placement:
    """Put the server on the first CPU and the generator on the second one, if there are two."""
    cpus = sorted(os.sched_getaffinity(0))
    return Placement(cpus[0], cpus[1]) if len(cpus) > 1 else Placement(None, None)


def measure(
    workload: Workload,
    contestant: Contestant,
    repeat: int,
    duration_s: float,
    place: Placement,
    *,
    profile: Path | None,
    ca: str = "",
) -> Run:
    """Carry out one run; what goes wrong is in the result.

    Args:
        workload: What is done.
        contestant: To whom.
        repeat: Number of the repetition.
        duration_s: Of publishing.
        place: CPUs.
        ca: PEM file of the authority that vouches for the broker; empty without TLS.
        profile: Directory for a py-spy profile of a broker written in Python, which falsifies the figures.
    """
    result: dict[str, Any]
    try:
        with RunningBroker(contestant.broker, place.server) as broker:
            with _profiled(broker.pid, profile and profile / f"{workload.name}-{contestant.name}-{repeat}.svg"):
                result = _generate(workload, contestant, broker, duration_s, place, ca)
            if "figures" not in result:
                told = broker.told()
                result = {kind: f"{text}; the broker says: {told}" if told else text for kind, text in result.items()}
    except BrokerError as error:
        result = {"failed": str(error)}
    return Run(workload.name, contestant.name, repeat, **result)


def _generate(  # noqa: PLR0917 -- all of them are needed
    workload: Workload, contestant: Contestant, broker: RunningBroker, duration_s: float, place: Placement, ca: str
) -> dict[str, Any]:
    order = {
        "workload": workload.name,
        "dialect": contestant.dialect,
        "ports": broker.ports,
        "pid": broker.pid,
        "duration_s": duration_s,
        "cpu": place.generator,
        "ca": ca,
    }
    try:
        done = subprocess.run(
            [sys.executable, str(_GENERATOR)],
            input=json.dumps(order),
            capture_output=True,
            text=True,
            check=False,
            env=_environment(ca),
            timeout=_LIMIT_S + duration_s,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no end after {_LIMIT_S + duration_s:.0f} s"}
    if done.returncode:
        return {"failed": f"the load generator ended with {done.returncode}: {done.stderr.strip()[-500:]}"}
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _environment(ca: str) -> dict[str, str]:
    """Return the generator's environment; with TLS it offers one cipher only, so that all brokers use the same."""
    if not ca:
        return dict(os.environ)
    file = Path(ca).with_name("openssl.cnf")
    file.write_text(CIPHER_CONFIGURATION)
    return {**os.environ, "OPENSSL_CONF": str(file)}


@contextmanager
def _profiled(pid: int, file: Path | None) -> Iterator[None]:
    """Let py-spy draw a flame graph meanwhile."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if file is None or spy is None:
        yield
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    command = [spy, "record", "--nonblocking", "--rate", _PROFILE_RATE, "--pid", str(pid), "--output", str(file)]
    watching = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        watching.send_signal(signal.SIGINT)
        watching.wait()
