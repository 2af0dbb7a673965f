"""`hub bench scenario mesh`, small: real hubs in a row, and every number adds up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from peers.bench.errors import BenchError, PlanError
from peers.bench.hub_row import HubRow
from peers.bench.mesh import MeshPlan, run_mesh
from peers.bench.running_hub import child_environment
from peers.bench.stage import Watch
from tests.forked.program import run

pytestmark = pytest.mark.slow


def told(_: str) -> Watch:
    """Show nobody anything."""
    return lambda *_: None


def test_the_command(tmp_path: Path) -> None:
    """A column for each hub on standard output, the same as JSON; all has arrived, once and in order."""
    path = tmp_path / "figures.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "peers.cli", "bench", "scenario", "mesh", "--json", str(path)),
            *("--hubs", "3", "--rate", "1000", "--seconds", "0.3", "--messages", "500", "--topics", "3"),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=child_environment(),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    for text in (
        "hub 3",
        "hops to there",
        "messages/s",
        "latency there, p99",
        "µs/change",
        "filters a second are made",
    ):
        assert text in done.stdout
    document = json.loads(path.read_bytes())
    assert (document["benchmark"], document["flawless"], document["plan"]["hubs"]) == ("mesh", True, 3)
    found = document["found"]
    assert [place["hops"] for place in found["places"]] == [0, 1, 2]
    for place in found["places"]:
        assert (place["at_rate"]["delivered"], place["at_full_speed"]["delivered"]) == (300, 500)
        assert place["at_rate"]["latency"]["messages"] == 300
        assert place["at_full_speed"]["lost"] == place["at_rate"]["out_of_order"] == 0
    for figures in (found["at_rate_us"], found["at_full_speed_us"]):
        assert len(figures) == 3
        assert all(figure > 0 for figure in figures)
    assert len(found["change_us"]) == 3


def test_without_changes() -> None:
    """What is not asked for is not there."""
    plan = MeshPlan(hubs=2, rate=1000, seconds=0.1, messages=100, changes=0)
    report = run_mesh(plan, told)
    assert report.flawless
    assert report.figures["found"].change_us == []
    assert "µs/change" not in {row.unit for row in report.rows}
    assert list(report.columns) == ["hub 1", "hub 2"]


def test_hubs_that_do_not_start() -> None:
    """What was started is ended, and it is said which program failed."""
    row = HubRow(2, ("--no-such-flag",))
    with pytest.raises(BenchError, match="the hub did not start"), row:
        pass
    assert row.hubs == []


BAD = [
    ("hubs", {"hubs": 1}),
    ("hubs", {"hubs": 65}),
    ("rate", {"rate": 0}),
    ("seconds", {"seconds": 0}),
    ("messages", {"messages": 0}),
    ("size", {"size": 15}),
    ("topics", {"topics": 0}),
    ("changes", {"changes": -1}),
]


@pytest.mark.parametrize(("option", "fields"), BAD)
def test_what_is_wrong(option: str, fields: dict[str, int]) -> None:
    """One line that names the option."""
    with pytest.raises(PlanError, match=f"--{option}: "):
        MeshPlan(**fields).check()  # type: ignore[arg-type]


def test_what_is_wrong_is_said_at_once() -> None:
    """The command says it as of any flag, and starts nothing."""
    done = run("bench", "scenario", "mesh", "--hubs", "1", stdin=None, timeout_s=100)
    assert done.returncode == 2
    assert b"hub: --hubs: 1 given, expected a number from 2 to 64" in done.stderr
    assert not done.stdout
