"""`Operation`: what to do with a pair of numbers, and where its service is asked; `Mode`: how pairs travel."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Literal, TypeAlias

__all__ = ["ARITHMETIC", "Mode", "Operation", "records_topic_of", "topic_of"]

Mode: TypeAlias = Literal["one", "many", "batched"]
"""How pairs travel: one by one, each asked when the one before is answered; one by one, many at a time; in arrays."""


class Operation(IntEnum):
    """Each has a service of its own; the number is the type of a record that asks for it."""

    ADD = 1
    MULTIPLY = 2


_MODULO = (1 << 64) - 1


def _add(first: int, second: int) -> int:
    return first + second & _MODULO


def _multiply(first: int, second: int) -> int:
    return first * second & _MODULO


ARITHMETIC: dict[Operation, Callable[[int, int], int]] = {Operation.ADD: _add, Operation.MULTIPLY: _multiply}
"""Of numbers below 2^64, modulo 2^64."""


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
