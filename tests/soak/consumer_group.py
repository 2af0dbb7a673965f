"""Kill members of a consumer group, and its hub, many times, while it works on a journal; print what has become of it.

    python tests/soak/consumer_group.py [--messages 1000000] [--clients 50] [--hubs 20] [--workers 30] [--seed 1]

Then the same with a hub of two workers, by which members are connected: workers are killed, too, beside half as many
members and hubs, and there are half as many messages.

Exit code 1: a message was left out, or one of a key was worked on before another that stands before it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import NamedTuple

from rich.console import Console

from tests.faults.group import Group


class Part(NamedTuple):
    messages: int
    workers: int
    client_kills: int
    hub_kills: int
    worker_kills: int


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill members of a consumer group, and its hub, many times.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=50, help="members that are killed")
    parser.add_argument("--hubs", type=int, default=20, help="hubs that are killed")
    parser.add_argument("--workers", type=int, default=30, help="workers that are killed, in the second part")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    console = Console()
    whole = Part(chosen.messages, 0, chosen.clients, chosen.hubs, 0)
    with_workers = Part(chosen.messages // 2, 2, chosen.clients // 2, chosen.hubs // 2, chosen.workers)
    failed = [part for part in (whole, with_workers) if not run(console, part, chosen.seed)]
    return 1 if failed else 0


def run(console: Console, part: Part, seed: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="consumer-group-") as folder:
        began_s = time.perf_counter()
        group = Group(Path(folder), part.messages, Random(seed), part.workers)  # noqa: S311 -- to be repeated
        try:
            outcome = asyncio.run(group.run(part.client_kills, part.hub_kills, part.worker_kills))
        except (AssertionError, TimeoutError) as error:
            console.print(f"failed: {type(error).__name__}: {error}")
            return False
        passed_s = time.perf_counter() - began_s
    console.print(
        f"{part.messages:,} messages in {passed_s:.0f} s, {part.workers} workers; {outcome.clients_killed} members, "
        f"{outcome.hubs_killed} hubs, {outcome.workers_killed} workers killed: each at least once, in order by key; "
        f"{outcome.again:,} came again, {outcome.redelivered:,} of them told as such"
    )
    return True


if __name__ == "__main__":
    sys.exit(main())
