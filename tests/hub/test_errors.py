"""Errors are sorted by who must act."""

from __future__ import annotations

import pickle

import pytest

from hub import errors
from hub.errors import (
    BusyError,
    CloseCode,
    ClosedError,
    ConnectionLostError,
    HubError,
    InternalError,
    InvalidNameError,
    InvalidTopicError,
    JournalCorruptError,
    JournalUnavailableError,
    NoResponderError,
    NotAllowedError,
    NotRecognisedError,
    PeerError,
    ProtocolError,
    RejectedError,
    RequestError,
    RequestFailedError,
    RequestOverflowError,
    RequestTimeoutError,
    RequestTooBigError,
    ResponderGoneError,
    StorageError,
    UsageError,
)


@pytest.mark.parametrize(
    ("parent", "children"),
    [
        (HubError, {UsageError, PeerError, StorageError, InternalError}),
        (UsageError, {InvalidTopicError, InvalidNameError, ClosedError, BusyError}),
        (PeerError, {ProtocolError, RejectedError, ConnectionLostError, RequestError}),
        (
            RequestError,
            {
                RequestFailedError,
                NoResponderError,
                ResponderGoneError,
                RequestTimeoutError,
                RequestOverflowError,
                NotAllowedError,
                RequestTooBigError,
            },
        ),
        (StorageError, {JournalCorruptError, JournalUnavailableError}),
    ],
)
def test_the_tree_is_the_one_in_the_docstring(parent: type[HubError], children: set[type[HubError]]) -> None:
    assert {child for child in parent.__subclasses__() if child.__module__ == "hub.errors"} == children
    assert errors.__doc__ is not None
    for child in children:
        assert child.__name__ in errors.__doc__


def test_an_error_of_the_far_side_bears_a_code_and_a_text() -> None:
    error = RejectedError(CloseCode.NOT_ALLOWED, "no room")
    assert (error.code, error.text, str(error)) == (1008, "no room", "no room (1008)")


def test_an_error_of_the_far_side_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ProtocolError(CloseCode.BAD_DATA, "not UTF-8")))  # noqa: S301 -- our own bytes
    assert type(error) is ProtocolError
    assert (error.code, error.text, str(error)) == (1007, "not UTF-8", "not UTF-8 (1007)")


def test_a_request_that_is_not_answered_with_a_value_says_what_has_become_of_it() -> None:
    error = pickle.loads(pickle.dumps(RequestTimeoutError(4, "no answer within 30 s")))  # noqa: S301 -- our own bytes
    assert isinstance(error, TimeoutError)
    assert (error.status, error.code, str(error)) == (4, 4104, "no answer within 30 s")


def test_whoever_is_not_recognised_learns_nothing_else() -> None:
    error = pickle.loads(pickle.dumps(NotRecognisedError(0.5)))  # noqa: S301 -- our own bytes
    assert isinstance(error, ProtocolError)
    assert (error.delay_s, error.code, error.text) == (0.5, 4401, NotRecognisedError().text)


def test_close_codes_are_those_of_the_wire() -> None:
    assert {code.name: int(code) for code in CloseCode} == {
        "DONE": 1000,
        "GOING_AWAY": 1001,
        "PROTOCOL_ERROR": 1002,
        "WRONG_KIND": 1003,
        "BAD_DATA": 1007,
        "NOT_ALLOWED": 1008,
        "TOO_BIG": 1009,
        "INTERNAL_ERROR": 1011,
        "TRY_AGAIN_LATER": 1013,
        "OVERFLOW": 4008,
        "ALREADY_CONNECTED": 4009,
        "THAT_IS_YOURSELF": 4010,
        "GONE": 4011,
        "JOURNAL_FAILED": 4012,
        "NOT_RECOGNISED": 4401,
        "FORBIDDEN": 4403,
    }
