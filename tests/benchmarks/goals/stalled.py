"""Goals for subscribers that stop reading: what that costs the others, and what exactly they lose themselves."""

from __future__ import annotations

import re

from hub.overflow import Overflow
from peers.bench.measurement import Measurement
from peers.bench.stage import Stage
from peers.wire.hello import QueueWish
from tests.benchmarks.goals.figure import Figure
from tests.benchmarks.goals.scope import Scope, faults
from tests.benchmarks.goals.stalled_readers import Account, stalled_readers

__all__ = ["account_faults", "stalled"]

_SUBSCRIBERS, _STALLED = 100, 10
_QUEUE_MESSAGES = 1000
_SIZE_BYTES = 100
_RATE_MESSAGES = 400_000
_ACCOUNT_MESSAGES = 200_000
"""This is several times what a queue, the hub's write buffer and the kernel's hold together, and few enough that a
subscriber that is disconnected is read again before the hub gives it up (2 s)."""


def stalled(scope: Scope, overflow: Overflow, goal_percent: float) -> list[Figure]:
    """Measure what it costs that 10 of 100 stop reading, and what those get."""
    name = f"10 of 100 stalled, {overflow.value}"
    rates, capacities, flaws = [], [], []
    for number in range(scope.repeat):
        pair: dict[bool, Measurement] = {}
        for stalling in (False, True) if number % 2 == 0 else (True, False):
            pair[stalling] = _rate(scope, overflow, f"{name}{'' if stalling else ': none yet'}", stalling=stalling)
        rates.append(100 * pair[True].published_per_s / pair[False].published_per_s)
        capacities.append(100 * pair[False].us_per_message / pair[True].us_per_message)
        flaws += faults(list(pair.values()))
    by_cpu = f"{name}: messages to the others for a second of hub CPU"
    return [
        Figure(f"{name}: rate of the others", goal_percent, "% of before", rates, at_least=True, faults=flaws),
        Figure(by_cpu, goal_percent, "% of before", capacities, at_least=True, faults=flaws),
        _accounts(scope, overflow, name),
    ]


def _accounts(scope: Scope, overflow: Overflow, name: str) -> Figure:
    """Measure how many of the stalled ones got exactly what they should."""
    wrong = [
        account_faults(account, overflow, _sent(scope), _QUEUE_MESSAGES)
        for _ in range(scope.repeat)
        for account in _account(scope, overflow, f"{name}: account")
    ]
    right_percent = 100 * sum(not one for one in wrong) / len(wrong)
    return Figure(
        f"{name}: stalled ones whose messages and told losses are exactly right",
        100,
        "%",
        [right_percent],
        at_least=True,
        faults=sorted({fault for one in wrong for fault in one})[:3],
    )


def _sent(scope: Scope) -> int:
    return scope.scaled(_ACCOUNT_MESSAGES, 60_000)


def _rate(scope: Scope, overflow: Overflow, name: str, *, stalling: bool) -> Measurement:
    stuck = scope.scaled(_STALLED) if stalling else 0
    plan = scope.plan(
        messages=scope.scaled(_RATE_MESSAGES),
        size=_SIZE_BYTES,
        subscribers=scope.scaled(_SUBSCRIBERS, 2) - stuck,
        wish=QueueWish(messages=65_536),
    )
    with Stage(plan) as stage, stalled_readers(stage, stuck, _wish(overflow)) as readers:
        stage.measure(plan.warmup_messages)  # so that their queues are full from the beginning
        return stage.measure(watch=readers.watched(scope.tell(name)))


def _account(scope: Scope, overflow: Overflow, name: str) -> list[Account]:
    """Let some overflow, then read everything they have."""
    plan = scope.plan(messages=_sent(scope), size=_SIZE_BYTES, warmup=0)
    with Stage(plan) as stage, stalled_readers(stage, scope.scaled(_STALLED), _wish(overflow)) as readers:
        stage.measure(watch=readers.watched(scope.tell(name)))
        return readers.accounts()


def _wish(overflow: Overflow) -> QueueWish:
    return QueueWish(messages=_QUEUE_MESSAGES, overflow=overflow)


def account_faults(account: Account, overflow: Overflow, sent: int, queue_messages: int) -> list[str]:
    """Return what is wrong with what one subscriber got that stalled from the first message on.

    All of it must be told, and none twice or out of order. Of the messages that its queue held:

    * drop-oldest: one gap, and behind it exactly as many messages as the queue holds, the newest;
    * drop-newest: no gap before the end, so what it got are the oldest;
    * disconnect: the oldest, then close code 4008 and how many were lost until then.
    """
    wrong = []
    if account.received + account.lost != sent or account.out_of_order:
        wrong.append(f"{account.received} received and {account.lost} lost are not {sent}")
    if len(account.gaps) != 1:
        return [*wrong, f"{len(account.gaps)} gaps, expected one"]
    gap = account.gaps[0]
    behind = sent - gap.first - gap.messages
    if behind != (queue_messages if overflow is Overflow.DROP_OLDEST else 0):
        wrong.append(f"{behind} messages behind the gap")
    if overflow is Overflow.DISCONNECT:
        told = re.search(r"(\d+) messages lost.*\(4008\)", account.closed)
        if told is None or not queue_messages < int(told[1]) <= account.lost:
            wrong.append(f"closed with {account.closed!r}")
    elif account.told != account.lost:
        wrong.append(f"{account.lost} lost, {account.told} told")
    if account.closed and overflow is not Overflow.DISCONNECT:
        wrong.append(f"closed with {account.closed!r}")
    return wrong
