"""The generated pages under docs/reference: settings, commands, metrics, the hub's own topics and the Python API.

`python -m tests.contracts.rewrite` writes them; `test_reference` compares them with the code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import groupby
from typing import Any

from cyclopts import App
from prometheus_client.utils import floatToGoString

import peers.client
import peers.embedding
from hub.errors import CloseCode
from hub.limits import Overflow
from hub.messages.request_frame import Status
from hub.settings.keys import KEYS, Key, Kind
from hub.topics import RESERVED
from peers.admin.services import EVERYONE, FOR_ADMINS
from peers.cli import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_SENSELESS
from peers.cli.commands import app
from peers.cli.journal_reading import ExitCode
from peers.client import blocking
from peers.daemon.sources import flag, variable
from peers.journal.recorder import CONFIRM_S_BOUNDS
from peers.server.metrics import COUNTER, GAUGE, HISTOGRAM, JOURNAL, METRICS, TIER, Row
from peers.server.reading import QUEUE_S_BOUNDS, READ_BYTES_BOUNDS, READ_S_BOUNDS
from peers.users.identity import Reason
from peers.workers.gathering import WORKERS
from tests.contracts.hub_topics import SERVICES, TOPICS

__all__ = ["BUCKETS", "INSIDE", "PAGES", "full_name", "kind_of", "signature"]

GENERATED = "<!-- Generated from the code by `python -m tests.contracts.rewrite`. Do not edit. -->\n\n"


def table(*head: str, rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


# Settings.


def size(value: float) -> str:
    """Return a size in the largest unit of which it is a whole number."""
    if not value:
        return "0"
    number, unit = int(value), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if number % 1024:
            break
        number, unit = number // 1024, larger
    return f"{number:,} {unit}"


def default_of(key: Key) -> str:
    value: Any = key.default.value if isinstance(key.default, Overflow) else key.default
    match key.kind:
        case Kind.SIZE:
            return size(value)
        case Kind.TEXTS:
            return ", ".join(f"`{item}`" for item in value) or "none"
        case Kind.SECONDS:
            return f"{value:,.10g} s"
        case Kind.COUNT:
            return f"{value:,}"
        case _:
            return f"`{value}`" if value else "empty"


def accepted(key: Key) -> str:
    match key.kind:
        case Kind.CHOICE:
            return ", ".join(f"`{choice}`" for choice in key.choices)
        case Kind.TEXT:
            return key.unit or f"text, up to {key.most:,} bytes"
        case Kind.TEXTS:
            return ("one or more " if key.least else "any number of ") + key.unit
        case Kind.SIZE:
            return f"{size(key.least)} to {size(key.most)}"
        case _:
            return f"{key.least:,g} to {key.most:,.10g} {key.unit}"


def settings() -> Iterator[str]:
    yield (
        "# Settings\n\n" + GENERATED + "[Configuration](../configuration.md) explains files, variables and flags. "
        "*Live* settings are applied by a reload; others need a restart.\n"
    )
    for section, keys in groupby(KEYS.items(), key=lambda item: item[0].rpartition(".")[0]):
        rows = [
            (
                f"`{path}`<br>`{flag(path)}`<br>`{variable(path)}`",
                key.description,
                default_of(key),
                accepted(key),
                "yes" if key.live else "no",
            )
            for path, key in keys
        ]
        yield f"\n## {section or 'The hub'}\n\n"
        yield table("setting", "meaning", "default", "accepted", "live", rows=rows)


# Commands.


SETTINGS = frozenset(map(flag, KEYS))
CONNECTION = ("--url", "--context", "--name", "--token-file", "--ca", "--certificate", "--key")


def commands() -> Iterator[str]:
    yield "# Commands\n\n" + GENERATED + "[Command line](../command-line.md) has examples and explanations.\n"
    yield "\n## Connection flags\n\nCommands that connect to a hub have these flags:\n\n"
    yield table("flag", "meaning", rows=[row for name, *row in parameters(app["sub"]) if name in CONNECTION])
    yield from commands_of(app, "hub")


def commands_of(command: App, name: str) -> Iterator[str]:
    inner = [each for each in command if not each.startswith("-")]
    if name != "hub":
        yield f"\n## {name}\n\n{first_paragraph(str(command.help or ''))}\n"
    if not inner:
        found = list(parameters(command))
        settings = [row for row in found if row[0] in SETTINGS]
        if len(settings) == len(KEYS):
            yield "\nEach [setting](settings.md) is a flag.\n"
            found = [row for row in found if row not in settings]
        if {first for first, *_ in found}.issuperset(CONNECTION):
            yield "\nTakes [connection flags](#connection-flags).\n"
            found = [row for row in found if row[0] not in CONNECTION]
        if found:
            yield "\n" + table("parameter", "meaning", rows=[row for _, *row in found])
    for each in inner:
        yield from commands_of(command[each], f"{name} {each}")


def parameters(command: App) -> Iterator[tuple[str, str, str]]:
    """Yield the first name of each parameter, and its row: all names, and the meaning."""
    for argument in command.assemble_argument_collection():
        names = [each for each in argument.names if each != "*" and not each.startswith("--no-")]
        if not names or not argument.show:
            continue
        meaning = argument.parameter.help or ""
        if choices := argument.get_choices():
            meaning += f" One of {', '.join(f'`{each}`' for each in choices)}."
        default: Any = argument.field_info.default
        if default not in (inspect.Parameter.empty, None, "", False, ()) and isinstance(
            default, str | int | float | Enum
        ):
            meaning += f" Default: `{getattr(default, 'value', default)}`."
        yield names[0], ", ".join(f"`{each}`" for each in names), meaning


# Metrics.

GROUPS = {
    "Connections and TLS": "connections|tls|drain",
    "Users and quotas": "anonymous|users|policy|quota",
    "Messages and handlers": "handlers|queue|queued|received|read|messages|delivered|refused_for",
    "Routing": "subscriptions|filter|rules|route|routes",
    "Memory and log": "memory|log",
    "Requests and service names": "services|requests|replies|names|name",
    "Shared memory": "shared",
    "Links": "links|link",
    "Mesh": "mesh",
    "Zeek": "zeek",
    "Stores": "store|stores",
    "Journals and consumers of other hubs": "remote|marks",
}
OF_A_JOURNAL = "Journal and consumers"
OF_A_TIER = "Journal tier"
OF_WORKERS = "Workers"
BUCKETS = {
    "hub_read_seconds": READ_S_BOUNDS,
    "hub_read_bytes": READ_BYTES_BOUNDS,
    "hub_queue_seconds": QUEUE_S_BOUNDS,
    "hub_journal_confirm_seconds": CONFIRM_S_BOUNDS,
}


def metrics() -> Iterator[str]:
    yield (
        "# Metrics\n\n"
        + GENERATED
        + "`GET /metrics` in the Prometheus text format; [observability](../observability.md) "
        "explains which to watch. Counters start at 0 with the process. With [workers](../workers.md), each metric has "
        "the label `worker`. Metrics of the process (`process_*`) and the interpreter (`python_info`) follow.\n"
    )
    groups: dict[str, list[Row[Any]]] = {"The hub": [], **{heading: [] for heading in GROUPS}}
    for row in METRICS:
        groups[group_of(row.name)].append(row)
    rows = {**groups, OF_A_JOURNAL: JOURNAL, OF_A_TIER: TIER, OF_WORKERS: WORKERS}
    for heading, some in rows.items():
        yield f"\n## {heading}\n\n"
        yield table("metric", "type", "unit", "labels", "meaning", rows=map(row_of_metric, some))
    yield "\n## Buckets of histograms\n\n"
    yield table(
        "histogram",
        "upper bounds",
        rows=[(f"`{name}`", ", ".join(map(floatToGoString, bounds))) for name, bounds in BUCKETS.items()],
    )


def group_of(name: str) -> str:
    return next((each for each, names in GROUPS.items() if re.match(f"hub_(?:{names})(?:_|$)", name)), "The hub")


def row_of_metric(row: Row[Any]) -> tuple[str, ...]:
    units = {"seconds": "s", "bytes": "bytes", "messages": "messages"}
    unit = next((units[word] for word in reversed(row.name.split("_")) if word in units), "")
    labels = "; ".join(
        f"`{label}`" + (": " + ", ".join(f"`{value}`" for value in values) if values else "")
        for label, values in row.labels.items()
    )
    return f"`{full_name(row)}`", kind_of(row), unit, labels, row.text


def kind_of(row: Row[Any]) -> str:
    return {GAUGE: "gauge", COUNTER: "counter", HISTOGRAM: "histogram"}[row.kind]


def full_name(row: Row[Any]) -> str:
    return row.name + ("_total" if row.kind is COUNTER else "")


# The hub's own topics and services, and codes.


def hub_topics() -> Iterator[str]:
    yield (
        "# Topics and services of the hub\n\n" + GENERATED + "The hub publishes events under `$hub/` and answers "
        "[requests](../requests.md) there; [observability](../observability.md) has examples. Events reach subscribers "
        "of this hub only, from all its [workers](../workers.md). `[]` marks elements of a list.\n\n## Topics\n"
    )
    for fields, topics in groupby(TOPICS.items(), key=lambda item: item[1].fields):
        named = dict(topics)
        yield f"\n### {', '.join(named)}\n\n"
        if len(named) == 1:
            yield f"{next(iter(named.values())).when}\n\n"
        else:
            yield "".join(f"* `{name}`: {topic.when}\n" for name, topic in named.items()) + "\n"
        yield table("field", "meaning", rows=described_fields(fields))
    yield (
        "\n## Services\n\nWithout users, the hub answers every client. With users: *everyone* may ask; a *grant* is a "
        "`request` permission of the [policy](../policy.md); *admins* need none. A list that is full continues "
        "behind its last element, by `after`.\n"
    )
    for name, service in SERVICES.items():
        for_whom = next((each for each, names in ALLOWED.items() if name in names), "users with a grant")
        yield f"\n### Request {name}\n\n{service.reply}\n\n* Request: {service.request}.\n* For {for_whom}.\n\n"
        yield table("field of the reply", "meaning", rows=described_fields(service.fields))
    yield "\n## Close codes\n\nOf connections over TCP and WebSocket, and of rejections that do not end them.\n\n"
    yield table("code", "name", "meaning", rows=members(CloseCode, "lower"))
    yield "\n## Statuses of requests\n\n" + table("status", "name", "meaning", rows=members(Status))
    yield "\n## Reasons of dropped messages\n\nThe overflow policies of a queue:\n\n"
    yield table("policy", "meaning", rows=[row[1:] for row in members(Overflow, "value")])
    yield "\n`unreadable` is a message that the receiver cannot decode, or that is too large for it. Of links:\n\n"
    dropped = TOPICS["$hub/statistics"].fields
    rows = [(f"`{name.rpartition('.')[2]}`", dropped[name]) for name in dropped if ".dropped." in name]
    yield table("reason", "meaning", rows=rows)
    yield "\n## Reasons of rejected logins\n\n" + table(
        "reason", "meaning", rows=[row[1:] for row in members(Reason, "value")]
    )
    yield "\n## Exit codes of commands\n\n" + table("code", "meaning", rows=EXIT_CODES)
    yield "\nOf `hub journal ls`, `stat`, `verify` and `export`:\n\n"
    yield table("code", "meaning", rows=[(row[0], row[2]) for row in members(ExitCode)])


ALLOWED = {
    "everyone": EVERYONE,
    "admins": {*FOR_ADMINS, RESERVED + "drain", RESERVED + "reload"},
}
EXIT_CODES = [
    ("0", "success"),
    (str(EXIT_ERROR), "failure: one line on standard error has the reason"),
    (str(EXIT_SENSELESS), "invalid command line, and nothing was done; or a timeout before `--limit` messages"),
    (str(EXIT_INTERRUPTED), "Ctrl-C"),
]


def described_fields(fields: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"`{name}`", meaning) for name, meaning in fields.items()]


def members(owner: type[Enum], name: str = "") -> list[tuple[str, str, str]]:
    """Return number, name and comment of each member of an enumeration."""
    source = inspect.getsource(owner)
    rows = []
    for member in owner:
        comment = re.search(rf"^    {member.name} = [^#\n]*#(?: noqa: \S+ --)? (.+)$", source, re.MULTILINE)
        assert comment, f"{owner.__name__}.{member.name} needs a comment"
        shown = {"lower": member.name.lower().replace("_", " "), "value": f"`{member.value}`"}.get(name, member.name)
        rows.append((str(member.value), shown, comment[1].rstrip(".")))
    return rows


# The Python API.

INSIDE = {
    "Block": {"alone", "send", "take"},
    "CallbackSubscription": {"finish", "open", "put", "put_break", "put_gap"},
    "ConsumedMessage": {"of"},
    "Hello": {"decode", "encode", "link", "mesh", "token", "without_token"},
    "MessageStream": {"finish", "put", "put_break", "put_gap"},
    "Service": {"cancel", "disconnected", "receive"},
    "ServiceName": {"end", "ended", "stand", "wish"},
}
"""What only the parts of a client use of them, see tests/client/test_surface.py."""


def python_api() -> Iterator[str]:
    yield (
        "# Python API\n\n"
        + GENERATED
        + "[Clients](../clients.md) and [a hub inside a program](../embedding.md) have examples.\n"
    )
    for package in (peers.client, blocking, peers.embedding):
        yield f"\n## {package.__name__}\n\n{first_paragraph(package.__doc__ or '')}\n"
        for name in sorted(package.__all__):
            yield from described(name, getattr(package, name))


def described(name: str, value: Any) -> Iterator[str]:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    kind = "exception " if inspect.isclass(value) and issubclass(value, BaseException) else ""
    yield f"\n### {kind}{name}\n\n"
    if inspect.isfunction(value):
        yield f"```python\n{name}{shown(value)}\n```\n\n"
    yield first_paragraph(inspect.getdoc(value) or "") + "\n"
    if inspect.isclass(value) and not kind and not issubclass(value, Enum):
        rows = [
            [f"`{member}{shown(function)}`", first_paragraph(inspect.getdoc(function) or "")]
            for member, function in sorted(methods(value).items())
        ]
        if rows:
            yield "\n" + table("method", "meaning", rows=rows)
    if inspect.isclass(value) and issubclass(value, Enum):
        yield "\n" + ", ".join(f"`{member.name} = {member.value!r}`" for member in value) + "\n"


def methods(owner: type) -> dict[str, Any]:
    found = {}
    for each in reversed(owner.__mro__):
        if each.__module__.startswith(("hub", "peers")):
            for name, member in vars(each).items():
                function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
                    found[name] = function
    return {name: function for name, function in found.items() if name not in INSIDE.get(owner.__name__, ())}


def shown(function: Any) -> str:
    text = signature(function).replace("<object object>", "...")
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def signature(value: Any) -> str:
    """Return the signature of a function or class, without `self`; annotations are texts."""
    found = inspect.signature(value)
    kept = [each for each in found.parameters.values() if each.name not in {"self", "cls"}]
    if inspect.isclass(value):
        found = found.replace(return_annotation=inspect.Signature.empty)
    text = re.sub(r" at 0x\w+>", ">", str(found.replace(parameters=kept)))
    text = re.sub(r"ForwardRef\(('[^']*')\)", r"\1", text)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def first_paragraph(text: str) -> str:
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "settings.md": settings,
    "commands.md": commands,
    "metrics.md": metrics,
    "hub-topics.md": hub_topics,
    "python-api.md": python_api,
}
