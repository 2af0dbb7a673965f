"""What a large policy costs: to read, to ask for the first time, and while a hub that serves reads it again.

    python tests/benchmarks/policies.py [--rules 100000] [--users 10000] [--reloads 5]

A thousand roles share the rules, half of them for publishing and half for subscribing, with paths of four components;
each user has two roles. Times are CPU time of one thread. A first check looks at a topic that was never looked at, for
another user each time.

The reload is that of a hub in a process of its own, by SIGHUP; meanwhile a client sends it one ping after the other, 2
ms apart, and waits for each. Its longest wait is what a message would have waited, with whatever else the machine did;
the most CPU time that the hub used during one is what it waited for the hub alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
import tomllib
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.policy.language import read_policy
from hub.policy.policy import Action, Policy
from peers.node.undisturbed import undisturbed
from tests.daemon.hub_process import HubProcess
from tests.hubs.raw_client import RawClient

ROLES = 1_000
CHECKS = 20_000
PAUSE_S = 0.002
PATIENCE_S = 60.0
AFTERWARDS_S = 1.0

HUB = """
listen = ["tcp://127.0.0.1:0"]
[log]
format = "json"
[access]
policy = "policy.toml"
anonymous = "member"
"""


def path_of(number: int) -> str:
    """The path of one rule: no two have the same."""
    return f"/site{number % 50}/area{number // 50 % 1000}/kind{number // 50_000}/{number}"


def text_of(rules: int, users: int) -> str:
    """A policy as people write it."""
    lines = []
    share = rules // (2 * ROLES)
    for role in range(ROLES):
        lines.append(f"[roles.role{role}]")
        for key, first in (("publish", 2 * role * share), ("subscribe", (2 * role + 1) * share)):
            paths = ", ".join(f'"{path_of(number)}"' for number in range(first, first + share))
            lines.append(f"{key} = [{paths}]")
    lines.append("[users]")
    lines += [f'user{number} = ["role{number % ROLES}", "role{number * 7 % ROLES}"]' for number in range(users)]
    return "\n".join(lines)


def read(text: str) -> Policy:
    """Read it, and say what that costs."""
    begin = time.thread_time()
    with undisturbed():  # as a reload does it
        tree = tomllib.loads(text)
        parsed = time.thread_time()
        policy = read_policy(tree, "policy.toml")
        done = time.thread_time()
    print(f"{len(text) / 1e6:.1f} MB of TOML: parsed {parsed - begin:.2f} s, compiled {done - parsed:.2f} s of CPU")  # noqa: T201
    return policy


def weigh(text: str, rules: int) -> None:
    """Say how much memory the compiled policy takes."""
    tree = tomllib.loads(text)
    tracemalloc.start()
    policy = read_policy(tree, "policy.toml")
    print(f"{tracemalloc.get_traced_memory()[0] / rules:.0f} bytes a rule, {len(policy.users)} users")  # noqa: T201
    tracemalloc.stop()


def check(policy: Policy, rules: int, users: int) -> None:
    """Say what first checks cost."""
    chance = random.Random(7)  # noqa: S311 -- the same each time
    asked = [
        (policy.rights(f"user{chance.randrange(users)}"), f"{path_of(chance.randrange(rules))}/x")
        for _ in range(CHECKS)
    ]
    begin = time.thread_time()
    for rights, topic in asked:
        rights.may(Action.PUBLISH, topic)
    middle = time.thread_time()
    for rights, topic in asked:
        rights.may_all(Action.SUBSCRIBE, topic)
    end = time.thread_time()
    topic_us, prefix_us = (middle - begin) / CHECKS * 1e6, (end - middle) / CHECKS * 1e6
    print(f"a first check: a topic {topic_us:.1f} µs, a prefix {prefix_us:.1f} µs")  # noqa: T201


def cpu_ms(pid: int) -> float:
    """CPU time of all threads of a process."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e6


async def ping(client: RawClient, pid: int, waits: list[tuple[float, float]]) -> None:
    """Send one ping after the other; note how long each took, and how much CPU time the hub used meanwhile, ms."""
    while True:
        begin, used_ms = time.perf_counter(), cpu_ms(pid)
        await client.ping()
        waits.append(((time.perf_counter() - begin) * 1e3, cpu_ms(pid) - used_ms))
        await asyncio.sleep(PAUSE_S)


async def reload(reloads: int) -> None:
    """Have a hub read its policy again, and say how long a client waits meanwhile."""
    hub = await (await HubProcess.start([], {})).wait_up()
    client = await RawClient.connect(hub.endpoints[0])
    await client.greet()
    waits: list[tuple[float, float]] = []
    pinging = asyncio.create_task(ping(client, hub.pid, waits))
    await asyncio.sleep(2)
    for number in range(reloads + 1):
        waits.clear()
        begin, used_ms = time.perf_counter(), cpu_ms(hub.pid)
        if number:
            hub.signal(signal.SIGHUP)
            await asyncio.wait_for(hub.wait_logged("settings reloaded"), PATIENCE_S)
            await asyncio.sleep(AFTERWARDS_S)  # the old policy goes
        else:
            await asyncio.sleep(1)
        took_s, used_s = time.perf_counter() - begin, (cpu_ms(hub.pid) - used_ms) / 1e3
        longest_ms, most_ms = max(wait for wait, _ in waits), max(used for _, used in waits)
        print(  # noqa: T201
            f"{'reload' if number else 'idle'}: {took_s:.2f} s, {used_s:.2f} s of CPU; {len(waits)} pings waited for"
            f" up to {longest_ms:.1f} ms, and for up to {most_ms:.1f} ms of the hub's CPU time"
        )
    pinging.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pinging
    client.close()
    await hub.kill()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What a large policy costs.")
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--reloads", type=int, default=5)
    given = parser.parse_args()
    text = text_of(given.rules, given.users)
    check(read(text), given.rules, given.users)
    weigh(text, given.rules)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("policy.toml").write_text(text)
        Path("hub.toml").write_text(HUB)
        asyncio.run(reload(given.reloads))
        os.chdir("/")


if __name__ == "__main__":
    main()
