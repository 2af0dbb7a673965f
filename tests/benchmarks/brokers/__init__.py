"""The brokers: how each is found, configured and started. `BROKERS` lists them, ours first.

The last one, the relay, is no broker: it shows what the kernel alone costs.
"""

from __future__ import annotations

from brokers.broker import Broker
from brokers.certificate import Certificate
from brokers.hub import Hub
from brokers.mosquitto import Mosquitto
from brokers.nats import Nats
from brokers.redis import Redis
from brokers.relay import Relay
from brokers.zeromq import Zeromq

__all__ = ["BROKERS", "secured_brokers"]

BROKERS: tuple[Broker, ...] = (Hub(), Nats(), Zeromq(), Redis(), Mosquitto(), Relay())


def secured_brokers(certificate: Certificate) -> tuple[Broker, ...]:
    """Return those that are compared with TLS, ours first."""
    return Hub(certificate=certificate), Nats(certificate)
