"""Where the services are asked."""

from __future__ import annotations

from peers.bench.y.operation import Operation

__all__ = ["records_topic_of", "topic_of"]


def topic_of(topic: str, operation: Operation) -> str:
    """Return where single pairs go.

    Args:
        topic: What all topics of this benchmark begin with.
        operation: Of the service.
    """
    return f"{topic}/{operation.name.lower()}"


def records_topic_of(topic: str, operation: Operation) -> str:
    """Return where arrays of records go."""
    return f"{topic_of(topic, operation)}/records"
