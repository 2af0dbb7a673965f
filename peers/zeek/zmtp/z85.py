"""Z85: keys of 32 bytes as texts of 40 characters, as libzmq and Zeek have them (RFC 32 of ZeroMQ)."""

from __future__ import annotations

from struct import Struct
from typing import Final

KEY_BYTES: Final = 32
KEY_CHARACTERS: Final = 40
_CHARACTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS: Final = {character: digit for digit, character in enumerate(_CHARACTERS)}
_BASE: Final = 85
_GROUP_CHARACTERS: Final = 5
_NUMBERS: Final = Struct(">8I")
_LARGEST: Final = 2**32 - 1


def encode_key(key: bytes) -> str:
    characters: list[str] = []
    for number in _NUMBERS.unpack(key):
        group = [_CHARACTERS[number // _BASE**place % _BASE] for place in range(_GROUP_CHARACTERS)]
        characters += reversed(group)
    return "".join(characters)


def decode_key(text: str) -> bytes:
    """Read a key.

    Raises:
        ValueError: The text is no key; it is not repeated, as it may be nearly a secret key.
    """
    if len(text) != KEY_CHARACTERS:
        raise ValueError(f"a key has {KEY_CHARACTERS} characters, this has {len(text)}")
    numbers = []
    for start in range(0, KEY_CHARACTERS, _GROUP_CHARACTERS):
        number = 0
        for place, character in enumerate(text[start : start + _GROUP_CHARACTERS], start + 1):
            if character not in _DIGITS:
                raise ValueError(f"character {place} of a key is not in Z85")
            number = number * _BASE + _DIGITS[character]
        if number > _LARGEST:
            raise ValueError(f"characters {start + 1} to {start + _GROUP_CHARACTERS} of a key are no number of 32 bits")
        numbers.append(number)
    return _NUMBERS.pack(*numbers)
