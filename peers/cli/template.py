"""`Template`: a topic with fields, such as `/zeek/{_path}`, filled from one record after the other.

```
/zeek/{_path}/{id.orig_h}        {"_path": "dns", "id.orig_h": "10.0.0.7"}   ─▶   /zeek/dns/10.0.0.7
```

A field is looked up by its whole name first (Zeek writes `id.orig_h` flat), then along its dots through nested maps.
Texts, integers, booleans (`true`, `false`) and floats fill a field; lists, maps and null do not. `{{` and `}}` are
braces.

Owner of the state: nobody, a template is a value. Compiled once; cost: one dictionary hit and one concatenation a
record in the usual case of one field. Not here: whether the outcome is a topic (`hub.topics`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hub.errors import UsageError
from hub.topics import printable
from peers.cli.errors import FlagError

__all__ = ["FieldError", "Template", "TemplateError"]

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")

_NONE: Any = object()


class TemplateError(FlagError):
    """A template that cannot be filled by any record."""


class FieldError(UsageError):
    """A record that does not fill the template.

    Attributes:
        field: Name of the field that the record lacks.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"field {printable(field)} {reason}")
        self.field = field


class Template:
    """A compiled template.

    Args:
        text: The topic with fields in braces.

    Raises:
        TemplateError: A brace without its other half, or a field without a name.
    """

    __slots__ = ("fields", "fill")

    fields: tuple[str, ...]
    """Names of the fields, in order."""

    fill: Callable[[Mapping[str, Any]], str]
    """Return the topic of a record; raises `FieldError` if the record lacks a field."""

    def __init__(self, text: str) -> None:
        parts = list(_parse(text))
        self.fields = tuple(part for is_field, part in parts if is_field)
        self.fill = _compile(parts)


def _parse(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the parts: whether each is a field, and its text or name."""
    for token in _TOKEN.finditer(text):
        found, field = token[0], token[1]
        if field is not None:
            if not field:
                raise TemplateError(f"template {printable(text)}: {{}} names no field; write {{_path}} or the like")
            yield True, field
        elif found in {"{{", "}}"}:
            yield False, found[0]
        elif found in {"{", "}"}:
            raise TemplateError(
                f"template {printable(text)}: '{found}' at character {token.start()} has no other half; "
                f"a brace that is meant as such is written twice"
            )
        else:
            yield False, found


def _compile(parts: list[tuple[bool, str]]) -> Callable[[Mapping[str, Any]], str]:
    """Make the function that fills: a special one for a single field, because it runs for each record."""
    if sum(is_field for is_field, _ in parts) != 1:
        return lambda record: "".join(
            _text(record.get(part, _NONE), part, record) if is_field else part for is_field, part in parts
        )
    at = next(index for index, (is_field, _) in enumerate(parts) if is_field)
    before = "".join(part for _, part in parts[:at])
    field = parts[at][1]
    after = "".join(part for _, part in parts[at + 1 :])

    def fill(record: Mapping[str, Any]) -> str:
        value = record.get(field, _NONE)
        return f"{before}{value if type(value) is str else _text(value, field, record)}{after}"

    return fill


def _text(value: Any, field: str, record: Mapping[str, Any]) -> str:
    """Spell the value of a field."""
    if value is _NONE:
        value = _nested(record, field)
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case None:
            raise FieldError(field, "is null")
    raise FieldError(field, f"is a {'list' if isinstance(value, list) else 'map'}, a topic takes texts and numbers")


def _nested(record: Mapping[str, Any], field: str) -> Any:
    """Look `a.b` up as `b` within `a`."""
    value: Any = record
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise FieldError(field, "is missing")
        value = value[name]
    return value
