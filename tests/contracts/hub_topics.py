"""What docs/reference/hub-topics.md says of each topic and service under `$hub/`, and of each of their fields.

`test_running_hub` compares the fields with those of a running hub. A field is a path, as `golden.fields_of` names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["SERVICES", "TOPICS", "Service", "Topic"]

Fields = Mapping[str, str]


class Topic(NamedTuple):
    when: str
    fields: Fields


class Service(NamedTuple):
    request: str
    reply: str
    fields: Fields


def inside(path: str, fields: Fields) -> Fields:
    return {f"{path}.{name}": meaning for name, meaning in fields.items()}


A_HANDLER: Fields = {
    "id": "id of the connection",
    "name": "name of the client, or hub",
    "address": "remote address",
    "role": "`client`, `link` (a peer hub), or `leaf` (a Zeek)",
}
SAMPLE: Fields = {"prefixes[]": "some of its prefixes"}
A_HUB: Fields = {"hub": "id of the hub", "name": "its name"}
A_NAME: Fields = {
    "name": "service name",
    "labels[]": "its labels",
    "owner": "id of the client that owns it",
    "hub": "id of the owner's hub",
}
A_PEERING: Fields = {
    "endpoint": "id of the Zeek's endpoint",
    "address": "its address",
    "reason": "reason, as text",
    "code": "close code",
    "broker": "name of the event in Broker",
    "broker_code": "its number in Broker",
}
A_NODE: Fields = {"cluster": "address of the cluster's broker", "id": "id of the node", "name": "its name"}
AN_ACT: Fields = {
    "what": "`refused`, `recognised`, `reload`, `drain`, `queue` or `kick`",
    "at": "time, s since 1970",
    "user": "user that acted; empty without users",
    "id": "id of the connection",
    "name": "name of the client; `signal` for SIGHUP",
    "address": "remote address",
    "action": "of `refused`: an action of the policy, `connect`, `hold` (a reload revoked it), or `others`",
    "text": "of `refused` and `kick`: reason",
    "reason": "of `refused` with `connect`: a reason of `hub_users_refused_total`",
    "count": "of `refused`: messages or requests since the last such event",
    "how": "of `recognised`: credential",
    "changed[]": "of `reload`: changed settings",
    "needs_restart[]": "of `reload`: changed settings that need a restart",
    "closed": "of `reload`: connections closed",
    "failed": "of `reload`: why nothing has changed",
    "clients": "of `drain`: clients to move",
    "of": "of `kick` and `queue`: the connections, by `id` or `user`",
    "connections": "of `kick`: connections closed",
    "messages": "of `queue`: new limit",
    "bytes": "of `queue`: new limit",
    "overflow": "of `queue`: new policy",
}
A_CONNECTION: Fields = {
    **A_HANDLER,
    "prefixes": "number of its prefixes",
    "sample[]": "some of its prefixes",
    "published_messages": "messages from it",
    "delivered_messages": "messages written to it",
    "delivered_bytes": "bytes written to it",
    "queued_messages": "messages in its queue",
    "queued_bytes": "bytes in its queue",
    "dropped_messages": "messages lost by its queue",
    "overflow": "overflow policy",
    "paused": "true while its socket accepts no bytes",
}
THE_STATE: Fields = {
    "text": "the state in one sentence",
    "connections": "clients, links and Zeeks",
    "subscribers": "those of them that subscribe",
    "slow": "slow subscribers",
    "slow_ids[]": "their ids, 1,000 at most",
    "dropped_messages": "messages dropped in the last minute",
    "dropped_by[]": "pairs of name and messages, the largest 16",
    "droppers": "connections that lost messages",
    "troubles[]": "problems of the hub itself",
}
TRAFFIC: Fields = {
    "received_messages": "messages received",
    "received_bytes": "bytes received",
    "sent_messages": "messages sent",
    "sent_bytes": "bytes sent",
    "path_changes": "times that a hub's messages switched to this link",
    "queued_messages": "messages queued for it",
    "waiting_s": "age of the oldest of these",
    "lag_s": "round-trip time of the last PING; null before it",
    "cost": "cost of the link",
}
RATES: Fields = {
    "in_messages": "messages from it, per second",
    "out_messages": "messages to it, per second",
    "out_bytes": "bytes to it, per second",
    "dropped_messages": "messages dropped, per second",
    "offered_messages": "messages delivered, dropped or queued, per second",
}
FIGURES: Fields = {
    "step_s": "seconds between points",
    "points": "points kept at most",
    "first": "number of the first point; point n begins at n · `step_s`",
    "figures": "lists of values by name, the newest last; null if unknown",
    "clock_s": "the hub's clock, which numbers the points",
    "now_s": "the same moment, s since 1970",
}

TOPICS: Mapping[str, Topic] = {
    "$hub/client/joined": Topic("A client connected.", A_HANDLER),
    "$hub/peer/joined": Topic("A link to a peer hub or a Zeek is up.", A_HANDLER),
    "$hub/client/left": Topic("A client disconnected.", {**A_HANDLER, "reason": "reason, as text"}),
    "$hub/peer/left": Topic("A link to a peer hub or a Zeek is down.", {**A_HANDLER, "reason": "reason, as text"}),
    "$hub/overflow": Topic(
        "A queue dropped messages; at most once a second for each connection.",
        {
            **A_HANDLER,
            **SAMPLE,
            "lost": "messages since the last event",
            "total": "messages since it connected",
            "overflow": "overflow policy",
            "queued": "messages in the queue",
        },
    ),
    "$hub/unreadable": Topic(
        "Messages had no form that the connection can decode, or were too large for it; at most once a second.",
        {**A_HANDLER, **SAMPLE, "lost": "messages since the last event", "total": "messages since it connected"},
    ),
    "$hub/links/lost": Topic(
        "Messages were lost with a link to a peer hub.",
        {
            **A_HUB,
            "address": "its address",
            "lost": "messages; 0 if it turned out that all arrived",
            "exactly": "false: `lost` is an upper bound",
            "sent": "true: sent by this hub; false: sent to it",
            "overtaken": "true: dropped because newer messages had arrived by another path",
        },
    ),
    "$hub/mesh": Topic(
        "Hubs or links of the mesh appeared or ended, as far as this hub knows. At most 100 of each kind are listed.",
        {
            "appeared[]": "hubs that appeared",
            **inside("appeared[]", A_HUB),
            "forgotten[]": "hubs that are gone",
            **inside("forgotten[]", A_HUB),
            "linked[]": "links that appeared",
            "linked[].between[]": "their two hubs",
            **inside("linked[].between[]", A_HUB),
            "linked[].cost": "cost of the link",
            "cut[]": "links that ended",
            "cut[].between[]": "their two hubs",
            **inside("cut[].between[]", A_HUB),
            "left_out": "how many more changed",
        },
    ),
    "$hub/names/appeared": Topic("A service name got an owner, or other labels.", A_NAME),
    "$hub/names/gone": Topic("A service name lost its owner.", A_NAME),
    "$hub/journal": Topic(
        "The journal cannot be written, or can be written again.",
        {
            "state": "`failed` or `recovered`",
            "reason": "of `failed`: reason",
            "offset": "offset of the next record",
            "lost": "of `recovered`: messages not recorded since the start",
        },
    ),
    "$hub/consumers": Topic(
        "A named consumer changed, gave up a message, or missed deleted messages.",
        {
            "consumer": "name of the consumer",
            "state": "`made`, `removed`, `dead` or `missed`; of queries also `back` and `forgotten`",
            "prefixes[]": "its prefixes",
            "position": "its position, an offset",
            "offset": "of `dead`: offset of the message",
            "topic": "of `dead`: topic of the message",
            "failures": "of `dead`: deliveries that failed",
            "from": "of `missed` and `back`: first offset",
            "to": "of `missed` and `back`: offset after the last one",
        },
    ),
    "$hub/audit": Topic("A user changed the hub, connected, or was rejected. Only admins receive it.", AN_ACT),
    "$hub/statistics": Topic(
        "Every second while it has a subscriber: 256 connections a message, so several messages may come.",
        {
            "hub": "name of the hub",
            "at_s": "the hub's clock",
            "handlers": "number of connections",
            "first": "true for the first message of this second",
            "some[]": "some of the connections",
            **inside("some[]", A_CONNECTION),
            "memory_bytes": "resident memory",
            "memory_limit_bytes": "memory budget",
            "dropped_log_lines": "log lines dropped since the start",
            "users[]": "first message: 32 users with the largest holdings, and all others together",
            "links[]": "first message: links, by the hub at the other end",
            "links[].hub": "name of the hub at the other end",
            "links[].links": "links that are up",
            **inside("links[]", TRAFFIC),
            "links[].dropped": "messages lost, by reason",
            "links[].dropped.queue_full": "the link was slower than its traffic",
            "links[].dropped.too_large": "too large for the other hub",
            "links[].dropped.cut": "the link ended",
            "links[].dropped.missed": "lost on the way here",
            "links[].dropped.overtaken": "newer messages had arrived by another path",
            "state": "first message: the state of the hub",
            **inside("state", THE_STATE),
        },
    ),
    "$hub/peers/added": Topic("A peering with a Zeek was established.", A_PEERING),
    "$hub/peers/removed": Topic("This hub ended a peering with a Zeek.", A_PEERING),
    "$hub/peers/lost": Topic("A Zeek, or the network, ended a peering.", A_PEERING),
    "$hub/peers/unavailable": Topic("An attempt to connect to a Zeek failed.", A_PEERING),
    "$hub/nodes/up": Topic("A node of a Zeek cluster appeared, where the hub is a node with a name.", A_NODE),
    "$hub/nodes/down": Topic("A node of a Zeek cluster left.", {**A_NODE, "reason": "reason, as text"}),
}
"""Fields of a topic; those of a part that is null or empty in an idle hub are described, too."""

SERVICES: Mapping[str, Service] = {
    "$hub/rights": Service(
        "null",
        "The rights of the client that asks.",
        {
            "user": "name of the user; empty without one",
            "roles[]": "roles",
            "admin": "true for an admin",
            "may[]": "actions that are granted for some topic",
            "asks[]": "services of the hub that it may use",
            "hears[]": "of `$hub/statistics` and `$hub/audit`, those that it may subscribe to",
        },
    ),
    "$hub/topics": Service(
        "null, or a map with `under` (a prefix) and `search` (a text)",
        "Traffic directly under a prefix, or of topics with the text in them, as far as the client may subscribe.",
        {
            "at_s": "the hub's clock",
            "counted": "topics that are counted, 4,096 at most",
            "rows[]": "the busiest 256",
            "rows[].prefix": "prefix, or topic",
            "rows[].is_topic": "true for a topic",
            "rows[].topics": "topics in the row",
            "rows[].messages_per_s": "messages per second",
            "rows[].bytes_per_s": "bytes of frames per second",
            "rows[].messages": "messages since counting began",
            "rows[].subscribers": "subscribers to all of the row; null unless an admin asks",
            "others": "further rows together: `nodes`, `topics`, `messages_per_s`, `bytes_per_s`; or null",
            "history": "last ten minutes of the topic `under`, as in `$hub/history`; or null",
        },
    ),
    "$hub/state": Service("null", "The state of the hub.", THE_STATE),
    "$hub/losses": Service(
        "null, or a map with `id` (of a connection) and `limit`",
        "The last 512 losses, the newest first: one for each connection and second.",
        {
            "[].at": "time, s since 1970",
            "[].id": "id of the connection",
            "[].label": "name or address",
            "[].messages": "messages lost",
            "[].why": "overflow policy, or `unreadable`",
        },
    ),
    "$hub/history": Service(
        "null, or a map with `after` (number of a point)",
        "Figures of the hub for each second of the last ten minutes.",
        {
            **FIGURES,
            "figures.in_messages[]": "messages received",
            "figures.in_bytes[]": "bytes received",
            "figures.out_messages[]": "messages sent",
            "figures.out_bytes[]": "bytes sent",
            "figures.dropped_messages[]": "messages dropped",
            "figures.queued_messages[]": "messages in queues",
            "figures.queued_bytes[]": "bytes in queues",
            "figures.lag_s[]": "delay of the event loop",
            "figures.cpu[]": "processors in use",
            "figures.memory_bytes[]": "resident memory",
            "figures.connections[]": "connections",
        },
    ),
    "$hub/names": Service(
        "null, a prefix, or a map with `prefix` and `after` (a name)",
        "Service names, up to 1,000, by name.",
        {
            "[].name": "service name",
            "[].labels[]": "its labels",
            "[].owner": "id of its owner",
            "[].hub": "id of the owner's hub",
        },
    ),
    "$hub/services": Service(
        "null, or a map with `after` (a prefix)",
        "Served prefixes of requests, up to 500, by prefix.",
        {
            "[].prefix": "served prefix",
            "[].connections[]": "services at this hub, 16 at most",
            "[].connections[].id": "id of the connection; null for the hub itself",
            "[].connections[].name": "name or address",
            "[].connections[].pending": "requests without a reply yet",
            "[].connections_total": "all services at this hub",
            "[].pending": "requests without a reply at all of them",
            "[].hubs[]": "ids of other hubs with a service, 16 at most",
            "[].hubs_total": "all hubs with a service",
        },
    ),
    "$hub/journal": Service(
        "null",
        "The journal of the hub, or null without one.",
        {
            "id": "id of the journal",
            "epoch": "its epoch",
            "topics[]": "recorded prefixes",
            "first": "oldest offset",
            "committed": "offset after the newest record",
            "size_bytes": "size on disk",
            "keep_bytes": "retention by size",
            "keep_s": "retention by age",
            "recorded_messages_total": "messages recorded since the start",
            "lost_messages_total": "messages not recorded since the start",
            "pauses_total": "times that the hub paused reading from a publisher",
            "waiting_bytes": "bytes not written yet",
            "buffer_bytes": "bytes above which the hub pauses publishers",
            "error": "why it cannot be written; empty if it can",
            "readers": "reader processes",
            "fetches": "reads in progress",
            "cut_total": "positions moved back after a power loss",
            "staged_transactions": "transactions that wait for COMMIT",
            "staged_bytes": "their bytes",
            "at_s": "the hub's clock",
            "tier": "its tier, or null",
            "tier.first": "oldest offset in the tier",
            "tier.next": "offset after the newest record there",
            "tier.files": "files",
            "tier.size_bytes": "size",
            "tier.missed": "messages deleted before they were copied",
            "tier.failures_total": "failed copies",
            "tier.restarts_total": "unexpected ends of the copying process",
            "tier.error": "why nothing is copied; empty if it is",
        },
    ),
    "$hub/consumers": Service(
        "null",
        "All named consumers.",
        {
            "[].name": "name, after its user",
            "[].prefixes[]": "prefixes",
            "[].members": "clients that share it",
            "[].position": "its position, an offset",
            "[].lag": "committed records after the position",
            "[].held": "messages read ahead and not delivered",
            "[].held_bytes": "their bytes",
            "[].out": "messages delivered and not acknowledged",
            "[].counters": "messages since the start",
            "[].counters.delivered_total": "delivered",
            "[].counters.redelivered_total": "of these, delivered again",
            "[].counters.acknowledged_total": "acknowledged",
            "[].counters.late_total": "acknowledged by a member that no longer had them",
            "[].counters.dead_total": "given up",
            "[].counters.missed_total": "deleted before they were read",
            "[].error": "why nothing can be read; empty if it can",
            "[].clients[]": "members with the most messages, 16 at most",
            "[].clients[].id": "id of the connection",
            "[].clients[].hub": "id of its hub; empty for this one",
            "[].clients[].out": "messages not acknowledged",
            "[].committed_s": "of a query: seconds since its last sign of life; else null",
        },
    ),
    "$hub/stores": Service(
        "null",
        "The stores of the hub.",
        {
            "[].name": "name",
            "[].epoch": "its epoch",
            "[].number": "number of the last change",
            "[].fed_from[]": "prefixes that feed it",
            "[].entries": "entries",
            "[].bytes": "bytes charged",
            "[].expiring": "entries that expire",
            "[].kept_changes": "changes kept for watchers",
            "[].kept_changes_bytes": "their bytes",
            "[].changes_total": "changes",
            "[].commands_total": "commands",
            "[].refused_total": "rejected commands",
            "[].expired_total": "expired entries",
            "[].reads_total": "reads",
            "[].snapshots_total": "snapshots begun",
            "[].published_total": "messages of changes",
            "[].keep_failures_total": "failed writes to its file",
        },
    ),
    "$hub/mesh/graph": Service(
        "null, or a map with `after` (id of a hub)",
        "Some hubs of the mesh, by id, about 1,000 hubs and links together; none at the end.",
        {
            "[].hub": "id of the hub",
            "[].name": "its name",
            "[].own": "true for the hub that answers",
            "[].prefixes": "subscribed prefixes",
            "[].left_out": "about how many prefixes are not stored here",
            "[].incomplete": "true: it gets every message",
            "[].lost": "since when it is unreachable, s since 1970; or null",
            "[].links": "cost of each link, by the id of the other hub",
            "[].links.ID": "cost",
            "[].zeeks": "its Zeeks, by endpoint id; true if it is their gateway",
            "[].link": "the link from the hub that answers, or null",
            **inside("[].link", TRAFFIC),
            "[].link.at": "id of the hub, or worker, that has the link",
            "[].link.dropped_messages": "messages lost",
            "[].link.rates": "activity; null in the first seconds",
            **inside("[].link.rates", RATES),
        },
    ),
    "$hub/nodes": Service(
        "null, or a map with `after` (id of a node)",
        "Nodes of Zeek clusters that are up, up to 500, by id.",
        {"[].id": "id of the node", "[].name": "its name", "[].cluster": "address of the cluster's broker"},
    ),
    "$hub/who": Service(
        "null, or a map with `after` (an id), `user` and `limit`; or with `id` and `history` (true)",
        "Connections by id, 64 or up to `limit` (1,024 at most); fewer at the end.",
        {
            **inside("[]", A_CONNECTION),
            "[].user": "name of the user",
            "[].how": "credential",
            "[].protocol": "protocol",
            "[].software": "software of the client, by its own account",
            "[].since": "when it connected, s since 1970",
            "[].rules": "number of its label rules",
            "[].queue": "limits of its queue",
            "[].queue.messages": "messages",
            "[].queue.bytes": "bytes",
            "[].received_bytes": "bytes read from it",
            "[].rates": "activity of the last 5 to 10 s; null in the first seconds",
            **inside("[].rates", RATES),
            "[].history": "with `history`: the last ten minutes, as in `$hub/history`",
        },
    ),
    "$hub/users": Service(
        "null, or a map with `after` (a user)",
        "Users of the policy and of connections, up to 1,000, by name.",
        {
            "[].user": "name; empty for clients without a user",
            "[].roles[]": "roles",
            "[].connections": "connections",
            "[].queued_bytes": "bytes in their queues",
            "[].published_messages": "messages published",
            "[].dropped_messages": "messages dropped",
        },
    ),
    "$hub/audit": Service(
        "null, or a map with `before` (s since 1970) and `limit`",
        "The last 1,024 events except `recognised`, the newest first, 200 or up to `limit`.",
        inside("[]", AN_ACT),
    ),
    "$hub/policy/test": Service(
        "a map with `action`, `topic`, and `user` or `roles` or both",
        "The decision of the policy in force.",
        {
            "verdict": "the decision",
            "verdict.user": "user asked about",
            "verdict.roles[]": "roles",
            "verdict.action": "action",
            "verdict.topic": "topic",
            "verdict.allowed": "true if allowed",
            "verdict.text": "reason",
            "verdict.rule": "the rule that decides: `role`, `path`, `allowed`; or null",
            "verdict.limits[]": "limits that apply: `key`, and `most` (null: not set)",
        },
    ),
    "$hub/mesh/trace": Service(
        "a map with `topic`, and `after` (id of a hub)",
        "Hubs that subscribe to a topic, and those on the path to them, up to 1,000, by id.",
        {
            "[].hub": "id of the hub",
            "[].name": "its name",
            "[].own": "true for the hub that answers",
            "[].wants": "true if it subscribes",
            "[].before": "id of the previous hub on the path, or null",
            "[].cost": "cost of the path; null without one",
            "[].barred": "true: the policy of this hub sends it no such messages",
        },
    ),
    "$hub/settings": Service(
        "null",
        "The settings in force, without secrets.",
        {
            "[].setting": "name",
            "[].value": "value",
            "[].value[]": "value of a list",
            "[].unit": "unit",
            "[].from": "source: flag, variable, file or default",
            "[].live": "true if a reload applies it",
            "[].description": "meaning",
        },
    ),
    "$hub/reload": Service(
        "null, or a map with `force` (true)",
        "Reads configuration, policy, tokens and certificates again. Fails with the reason if nothing has changed.",
        {
            "changed[]": "settings that changed",
            "needs_restart[]": "changed settings that need a restart",
            "closed": "connections closed",
        },
    ),
    "$hub/drain": Service(
        "null",
        "Moves clients to other hubs, then stops the hub.",
        {"clients": "clients to move", "seconds": "about how long that takes"},
    ),
    "$hub/kick": Service(
        "a map with `id` or `user`, and `text`",
        "Closes connections with 4403 and the text; fails if there are none.",
        {"kicked": "connections closed"},
    ),
}
