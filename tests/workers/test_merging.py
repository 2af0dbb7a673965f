"""How the answers of several processes become one."""

from __future__ import annotations

from typing import Any

from hub.losses import KEPT, State
from hub.quotas.quotas import USERS_SHOWN
from peers.admin import access
from peers.admin import who as all_who
from peers.workers.merging import MERGES, PAGES, merged_page


def test_a_page_of_connections() -> None:
    parts = [[{"id": first + 3 * number} for number in range(all_who.PAGE)] for first in (1, 2, 3)]
    assert [row["id"] for row in merged_page(parts)] == list(range(1, all_who.PAGE + 1))


def test_a_larger_page_of_connections() -> None:
    parts = [[{"id": first + 3 * number} for number in range(200)] for first in (1, 2, 3)]
    assert [row["id"] for row in merged_page(parts, {"limit": 200})] == list(range(1, 201))
    assert len(merged_page(parts, {"limit": 1 << 40})) == 600


def user(name: str, *, connections: int, roles: tuple[str, ...] = ("member",)) -> dict[str, Any]:
    sums = {"queued_bytes": 10, "published_messages": 20, "dropped_messages": 30}
    return {"user": name, "roles": [*roles], "connections": connections} | sums


def test_a_user_of_several_processes() -> None:
    parts = [[user("ada", connections=1)], [user("ada", connections=2, roles=("admin",))], []]
    (found,) = MERGES["users"](parts)
    assert (found["connections"], found["queued_bytes"], found["published_messages"]) == (3, 20, 40)
    assert found["roles"] == ["admin", "member"]


def test_a_page_of_users() -> None:
    names = [f"user-{number:05}" for number in range(access.USERS + 10)]
    parts = [[user(name, connections=1) for name in some[: access.USERS]] for some in (names, names[5:])]
    found = MERGES["users"](parts)
    assert [row["user"] for row in found] == names[: access.USERS]
    assert {row["connections"] for row in found[5:]} == {2}


def share(name: str, held: int, users: int = 1) -> dict[str, Any]:
    return {"user": name, "users": users, "held": {"prefixes": held}, "refused_total": 1, "held_back_s": 0.5}


def process(name: str, *ids: int, users: list[dict[str, Any]]) -> dict[str, Any]:
    some = [{"id": one} for one in ids]
    head = {
        "hub": name,
        "at_s": float(len(ids)),
        "handlers": len(ids),
        "memory_bytes": 10,
        "memory_limit_bytes": 100,
        "dropped_log_lines": 5,
        "links": [name],
        "state": State(connections=len(ids), subscribers=1).fields(),
    }
    return head | {"users": users, "some": some}


def test_handlers_of_all_processes() -> None:
    parts = [
        process("hub", 1, users=[share("ada", 1), share("", 5, users=3)]),
        process("hub/1", 7, 8, users=[share("bob", 9), share("ada", 2)]),
        process("hub/2", users=[]),
    ]
    found = MERGES["statistics"](parts)
    assert found["state"]["text"] == "All 3 subscribers keep up, nothing was dropped in the last minute."
    assert found["state"]["connections"] == 3
    assert (found["hub"], found["at_s"]) == ("hub", 1.0)
    assert [row["id"] for row in found["some"]] == [1, 7, 8]
    assert (found["memory_bytes"], found["memory_limit_bytes"], found["dropped_log_lines"]) == (30, 300, 15)
    assert found["links"] == ["hub", "hub/1", "hub/2"]
    assert [(one["user"], one["held"], one["users"]) for one in found["users"]] == [
        ("bob", {"prefixes": 9}, 1),
        ("ada", {"prefixes": 3}, 1),
        ("", {"prefixes": 5}, 3),
    ]


def test_no_more_users_than_one_process_shows() -> None:
    parts = [
        process(f"hub/{part}", users=[share(f"user-{part}-{number}", 1 + part) for number in range(USERS_SHOWN)])
        for part in (0, 1)
    ]
    found = MERGES["statistics"](parts)["users"]
    assert len(found) == USERS_SHOWN + 1
    assert {one["user"][:7] for one in found[:-1]} == {"user-1-"}
    assert (found[-1]["user"], found[-1]["users"], found[-1]["held"]) == ("", USERS_SHOWN, {"prefixes": USERS_SHOWN})


def test_what_was_done_is_added_up() -> None:
    assert MERGES["kick"]([{"kicked": 1}, {"kicked": 2}]) == {"kicked": 3}
    assert MERGES["drain"]([{"clients": 0, "seconds": 0.0}, {"clients": 5, "seconds": 0.5}]) == {
        "clients": 5,
        "seconds": 0.5,
    }


def test_losses_of_all_processes() -> None:
    parts = [[{"at": float(at)} for at in range(KEPT, 0, -1)], [{"at": at + 0.5} for at in range(KEPT, 0, -1)]]
    found = [one["at"] for one in MERGES["losses"](parts)]
    assert found[:3] == [KEPT + 0.5, KEPT, KEPT - 0.5]
    assert len(found) == KEPT


def test_audited_events() -> None:
    parts = [
        [{"at": 9.0}, {"at": 5.0, "of": 1}, {"at": 2.0}],
        [{"at": 7.0}, {"at": 5.0, "of": 2}, {"at": 5.0, "of": 3}],
    ]
    found = PAGES["audit"](parts, {"limit": 3})
    assert found == [{"at": 9.0}, {"at": 7.0}, {"at": 5.0, "of": 1}, {"at": 5.0, "of": 2}, {"at": 5.0, "of": 3}]
    assert len(PAGES["audit"](parts, None)) == 6
    assert PAGES["audit"]([[], []], {"limit": 1}) == []
