"""Kill members of a consumer group, and its hub, many times, while it works on a journal; print what has become of it.

    python tests/soak/consumer_group.py [--messages 1000000] [--clients 50] [--hubs 20] [--seed 1]

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

from rich.console import Console

from tests.faults.group import Group


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description="Kill members of a consumer group, and its hub, many times.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=50, help="members that are killed")
    parser.add_argument("--hubs", type=int, default=20, help="hubs that are killed")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="consumer-group-") as folder:
        began_s = time.perf_counter()
        group = Group(Path(folder), chosen.messages, Random(chosen.seed))  # noqa: S311 -- to be repeated
        try:
            outcome = asyncio.run(group.run(chosen.clients, chosen.hubs))
        except (AssertionError, TimeoutError) as error:
            console.print(f"failed: {type(error).__name__}: {error}")
            return 1
        passed_s = time.perf_counter() - began_s
    console.print(
        f"{chosen.messages:,} messages in {passed_s:.0f} s, {outcome.clients_killed} members and "
        f"{outcome.hubs_killed} hubs killed: each at least once, in order by key; "
        f"{outcome.again:,} came again, {outcome.redelivered:,} of them told as such"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
