"""Messages of Zeek's API, as the tests of several rooms write them."""

from __future__ import annotations

import json

from peers.values import decode_message

ACK = '{"type":"ack","endpoint":"eeeeeeee-eeee-4eee-beee-eeeeeeeeeeee","version":"2.8.0-dev"}'
"""What a Zeek answers the first message of a client."""


def count(topic: str, number: int) -> bytes:
    return b'{"type":"data-message","topic":%b,"@data-type":"count","data":%d}' % (json.dumps(topic).encode(), number)


def body_of(text: bytes) -> bytes:
    return decode_message(text)[1]
