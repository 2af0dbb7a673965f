"""`add_services`: what may be asked of every hub, by admins, or by whom the policy grants it.

Owner: the core, which keeps them.
"""

from __future__ import annotations

from hub.events import AUDIT_TOPIC
from hub.topics import RESERVED
from peers.admin.audit import audited
from peers.admin.graph import graph
from peers.admin.history import history
from peers.admin.journal import JOURNAL_TOPIC, journal
from peers.admin.kick import kick
from peers.admin.nodes import NODES_TOPIC, nodes
from peers.admin.policy import policy_test
from peers.admin.rights import rights
from peers.admin.served import SERVED_TOPIC, served
from peers.admin.settings import settings
from peers.admin.state import losses, state
from peers.admin.topics import topics
from peers.admin.trace import trace
from peers.admin.users import users
from peers.admin.who import who
from peers.node.node import Node

__all__ = ["add_services"]


def add_services(node: Node) -> None:
    """Let a node answer them."""
    services = node.core.requests.hub_services
    services.add(RESERVED + "who", who(node), for_admins=True)
    services.add(RESERVED + "users", users(node), for_admins=True)
    services.add(RESERVED + "topics", topics(node), judges_itself=True)
    services.add(RESERVED + "kick", kick(node), for_admins=True)
    services.add(RESERVED + "rights", rights(node), judges_itself=True)
    services.add(AUDIT_TOPIC, audited(node), for_admins=True)
    services.add(RESERVED + "policy/test", policy_test(node), for_admins=True)
    services.add(RESERVED + "history", history(node))
    services.add(RESERVED + "state", state(node))
    services.add(RESERVED + "losses", losses(node))
    services.add(RESERVED + "mesh/graph", graph(node))
    services.add(NODES_TOPIC, nodes(node))
    services.add(SERVED_TOPIC, served(node))
    services.add(JOURNAL_TOPIC, journal(node))
    services.add(RESERVED + "settings", settings(node), for_admins=True)
    services.add(RESERVED + "mesh/trace", trace(node), for_admins=True)
