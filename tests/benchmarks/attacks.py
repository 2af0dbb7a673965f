"""How late the messages of a quiet pair are while somebody attacks their hub.

    python tests/benchmarks/attacks.py [--only new-topics,pings] [--loops uvloop] [--seconds 8] [--markdown FILE]

For each attack a hub of its own is started, with default settings; a publisher and a subscriber exchange 500 messages a
second over it, and the attack runs in a process of its own beside them. The table says how late the pair's messages
were, without the time that the hub or the pair waited for a CPU, whether one was lost, and how much memory the hub
took. The exit code is 1 if a message was lost or the hub has ended.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import NamedTuple

from attacking import crowds, floods, hoards, renewals, swaps
from attacking.pair import Lateness, watch
from brokers.certificate import Certificate, new_certificate
from network import add_address, enter_own_network

from peers.bench.running_hub import RunningHub
from peers.bench.worker import raise_descriptor_limit

_GOAL_P99_MS = 50.0

Attack = Callable[[str, Callable[[], bool]], None]


def _nobody(url: str, until: Callable[[], bool]) -> None:
    """Nobody attacks: what the machine itself does to the pair."""
    del url
    while not until():
        time.sleep(0.05)


ATTACKS: dict[str, Attack] = {
    "nobody": _nobody,
    "new-topics": floods.new_topics,
    "refused-topics": floods.refused_topics,
    "unserved-requests": floods.unserved_requests,
    "pings": floods.pings,
    "peer-with-prefixes": hoards.peer_with_prefixes,
    "peer-that-leaves": hoards.peer_that_leaves,
    "many-prefixes": hoards.many_prefixes,
    "stalled-readers": hoards.stalled_readers,
    "silent-strangers": crowds.silent_strangers,
    "silent-handshakes": crowds.silent_handshakes,
    "begun-handshakes": crowds.begun_handshakes,
    "idle-clients-and-metrics": crowds.idle_clients_and_metrics,
    "clients-that-leave": crowds.clients_that_leave,
    "clients-that-say-goodbye": crowds.clients_that_say_goodbye,
    "clients-that-are-told": crowds.clients_that_are_told,
    "websockets-that-are-told": crowds.websockets_that_are_told,
    "event-streams-that-are-told": crowds.event_streams_that_are_told,
    "websockets-that-leave": crowds.websockets_that_leave,
    "stalled-readers-that-leave": hoards.stalled_readers_that_leave,
    "copies-for-many": floods.copies_for_many,
    "renewals-at-once": renewals.renewals_at_once,
    "renewals-in-a-loop": renewals.renewals_in_a_loop,
    "swapped-policy": swaps.swapped_policy,
}

_ON_BOTH_PORTS = frozenset(
    {
        "idle-clients-and-metrics",
        "websockets-that-leave",
        "websockets-that-are-told",
        "event-streams-that-are-told",
    }
)
"""Attacks that are told the URL of WebSockets, too, behind a space."""


_OVER_TLS = frozenset({"silent-handshakes", "begun-handshakes"})
"""Attacks that are told the URL with TLS, the file of the authority, and the address that they come from."""

_WITH_USERS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "renewals-at-once": renewals.flags,
    "renewals-in-a-loop": renewals.flags,
    "swapped-policy": swaps.flags,
}
"""Attacks on a hub that has users, with what writes its files and returns its flags. They are told where the files are,
and which process the hub is."""

_ATTACKER = "10.9.0.1"
"""Of another address than all others, which are of loopback. Where there is no such network, it is one of theirs."""


class Outcome(NamedTuple):
    """One attack on one loop."""

    loop: str
    attack: str
    lateness: Lateness
    peak_bytes: int


@contextmanager
def running_hub(loop: str, certificate: Certificate | None, flags: tuple[str, ...]) -> Iterator[RunningHub]:
    """Start a hub with that loop, flags and precedence, for a `with` statement; given a certificate, with TLS."""
    program = ("-m", "peers.cli")
    if loop == "asyncio":  # the hub takes uvloop wherever it can be imported
        program = ("-c", "import sys; sys.modules['uvloop'] = None; from peers.cli import main; main()")
    if certificate is None:
        hub = RunningHub.start(("tcp", "ws"), flags, program=program)
    else:
        files = ("--tls-certificate", certificate.certificate, "--tls-key", certificate.key, *flags)
        hub = RunningHub.start(("tcp", "tls"), files, program=program)
    try:
        _place(hub.pid, 0, -5)
        yield hub
    finally:
        hub.stop()


def _place(pid: int, cpu: int, nice: int) -> None:
    """Bind a process to a CPU, and give the hub and the pair precedence, where that is allowed."""
    with suppress(OSError):
        os.sched_setaffinity(pid, {cpu % os.cpu_count()})  # type: ignore[operator]
        os.setpriority(os.PRIO_PROCESS, pid, nice)


def _attacker() -> str:
    """Return the address that an attacker comes from, as another machine would; empty where there is only loopback."""
    with socket.socket() as probe:
        try:
            probe.bind((_ATTACKER, 0))
        except OSError:
            return ""
    return _ATTACKER


def _attack(name: str, url: str, over: Event) -> None:
    _place(os.getpid(), 1, 5)
    ATTACKS[name](url, over.is_set)


def run(loop: str, name: str, seconds: float) -> Outcome:
    """Let one attack run beside the pair."""
    with ExitStack() as stack:
        certificate = stack.enter_context(new_certificate()) if name in _OVER_TLS else None
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="hub-attacks-"))
        flags = _WITH_USERS[name](Path(directory)) if name in _WITH_USERS else ()
        hub = stack.enter_context(running_hub(loop, certificate, flags))
        over = multiprocessing.Event()
        tcp = hub.url("tcp")
        url = f"{tcp} {hub.url('ws')}" if name in _ON_BOTH_PORTS else tcp
        if name in _WITH_USERS:
            url = f"{tcp} {directory} {hub.pid}"
        if certificate is not None:
            url = f"{tcp} {hub.url('tls')} {certificate.ca} {_attacker()}"
        attacker = multiprocessing.Process(target=_attack, args=(name, url, over), daemon=True)
        attacker.start()
        end_s = time.monotonic() + seconds
        try:
            lateness = watch(tcp, hub.pid, lambda: time.monotonic() > end_s)
            peak_bytes = hub.usage().peak_bytes
        finally:
            over.set()
            attacker.join(10)
            attacker.kill()
    return Outcome(loop, name, lateness, peak_bytes)


def table(outcomes: list[Outcome]) -> str:
    """Return the outcomes as Markdown."""
    rows = [
        "| attack | loop | p50, ms | p99, ms | longest, ms | lost | hub waited for a CPU, ms | peak, MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for loop, attack, late, peak in outcomes:
        rows.append(
            f"| {attack} | {loop} | {late.p50_ms:.2f} | {late.p99_ms:.1f} | {late.longest_ms:.0f} | {late.lost} "
            f"| {late.waited_ms:.0f} | {peak / 2**20:.0f} |"
        )
    return "\n".join(rows) + "\n"


def main() -> int:
    """Run what is asked for, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(ATTACKS), help="attacks, separated by commas")
    parser.add_argument("--loops", default="uvloop,asyncio")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each attack lasts")
    parser.add_argument("--markdown", type=Path, help="where the table goes, beside the terminal")
    arguments = parser.parse_args()
    raise_descriptor_limit()
    if _OVER_TLS & set(arguments.only.split(",")):
        enter_own_network()
        add_address(_ATTACKER)
    _place(os.getpid(), 1, -5)
    outcomes = []
    for name in arguments.only.split(","):
        for loop in arguments.loops.split(","):
            outcome = run(loop, name, arguments.seconds)
            outcomes.append(outcome)
            sys.stdout.write(table([outcome]).splitlines()[-1] + "\n")
            sys.stdout.flush()
    if arguments.markdown is not None:
        arguments.markdown.write_text(table(outcomes))
    missed = [outcome for outcome in outcomes if outcome.lateness.p99_ms > _GOAL_P99_MS]
    sys.stdout.write(f"{len(missed)} of {len(outcomes)} have a p99 over {_GOAL_P99_MS:g} ms\n")
    return 1 if any(outcome.lateness.lost for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
