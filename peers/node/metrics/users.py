"""Metrics of users: who was recognised, who was not, and what each holds of the hub.

Owner: nobody: a scrape reads what others count. What they mean is in docs/observability.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hub.quotas.quotas import USERS_SHOWN, Quotas
from peers.node.metrics.family import counter, gauge
from peers.node.node import Node
from peers.users.access import Tested
from peers.users.identity import How
from peers.users.refusal import Reason

__all__ = ["share_metrics", "user_metrics"]


def user_metrics(node: Node) -> Iterator[Metric]:
    """Yield who was recognised, and who was not."""
    access = node.access
    yield gauge("hub_users_open", "1 where nobody is asked who he is, and all may do everything.", access.is_open)
    recognised = CounterMetricFamily("hub_users_recognised", "Recognised, by what was shown.", labels=("how",))
    for how in get_args(How):
        recognised.add_metric((how,), access.recognised[how])
    yield recognised
    refused = CounterMetricFamily("hub_users_refused", "Not recognised, by what was wrong.", labels=("reason",))
    for reason in Reason:
        refused.add_metric((reason.value,), access.refused[reason])
    yield refused
    yield counter("hub_users_denied", "Messages and requests that their user may not send.", node.audit.refused_total)
    tested = CounterMetricFamily(
        "hub_policy_tests", "Asked what a policy says, by what came of it.", labels=("outcome",)
    )
    for outcome in get_args(Tested):
        tested.add_metric((outcome,), access.tested[outcome])
    yield tested
    forgotten = node.core.authority.forgotten_total
    yield counter("hub_users_forgotten", "Times that what was decided for a user was too much.", forgotten)
    yield gauge("hub_users_slowed", "Addresses that failed lately.", access.failures.addresses)


def share_metrics(quotas: Quotas) -> Iterator[Metric]:
    """Yield what users hold of the hub, all together and those who hold most."""
    yield gauge("hub_quota_users", "Users who have a connection, or something else that is charged.", len(quotas))
    wholes = quotas.statistics()
    total = GaugeMetricFamily("hub_quota_limit", "How much there is for all users together.", labels=("resource",))
    held = GaugeMetricFamily("hub_quota_held", "What users hold of it.", labels=("resource",))
    refused = CounterMetricFamily("hub_quota_refused", "Times that somebody was refused more.", labels=("resource",))
    for resource, whole in wholes.items():
        total.add_metric((resource,), whole.total)
        held.add_metric((resource,), whole.held)
        refused.add_metric((resource,), whole.refused_total)
    yield from (total, held, refused)
    held_back_s, held_back_total = quotas.held_back()
    yield counter("hub_quota_held_back", "Times that one was not read on for the rate of its user.", held_back_total)
    yield counter("hub_quota_held_back_seconds", "For how long, added up over connections.", held_back_s)
    of_user = GaugeMetricFamily("hub_quota_user_held", "The same, by user.", labels=("user", "resource"))
    for share in quotas.largest(USERS_SHOWN):
        for resource, amount in share.held.items():
            of_user.add_metric((share.user, resource), amount)
    yield of_user
