"""`hub check-config` for programs."""

from __future__ import annotations

import json
from pathlib import Path

from hub.settings.keys import KEYS
from tests.cli.programs import hub


def test_each_setting_is_an_object(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text("[queue]\nmessages = 17\n")
    done = hub("check-config", "--config", str(file), "--queue-bytes", "1MiB", "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    found = {one["setting"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert found.keys() == KEYS.keys()
    assert (found["queue.messages"]["value"], found["queue.messages"]["unit"]) == (17, "messages")
    assert str(file) in found["queue.messages"]["from"]
    assert found["queue.bytes"]["value"] == 1 << 20
    assert found["limits.routes"]["from"] == "default"
    file.write_text("[queue]\nmessages = 0\n")
    assert hub("check-config", "--config", str(file), "--json").returncode == 1
