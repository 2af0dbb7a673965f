"""Alerts and the dashboard of examples/monitoring ask for metrics, labels and values that a hub has.

The hub is a real one, which has all that may be asked for: workers, a peer, a journal with a tier, a named consumer,
and a client that reads nothing.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hub.overflow import Overflow
from peers.client import connect
from peers.wire.hello import QueueWish
from tests.daemon.conftest import StartProcess
from tests.hubs.raw_client import RawClient
from tests.workers.conftest import StartWorkers

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "monitoring"
ALERTS = [rule for group in yaml.safe_load((EXAMPLE / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((EXAMPLE / "grafana" / "dashboards" / "topichub.json").read_text())
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]

_PLACED = frozenset({"job", "instance"})
"""Labels that Prometheus gives to whatever it reads somewhere."""

_LOOK_S = 0.1
"""How often the hub is asked for what it knows only after a while."""

_RANGE = re.compile(r"\[[^\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*(\{[^}]*\})?(?!\s*[\w:(])")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_OPERATORS = frozenset({"and", "or", "unless", "bool", "offset"})


class Expression(NamedTuple):
    selectors: list[tuple[str, list[tuple[str, str, str]]]]
    """Names of metrics, each with its matchers: label, operator, value."""
    groupings: list[str]
    """Labels by which it groups or joins."""

    @classmethod
    def of(cls, text: str) -> Expression:
        groupings = [label.strip() for labels in _GROUPING.findall(text) for label in labels.split(",")]
        rest = _RANGE.sub("", _GROUPING.sub(" ", text))
        found = [(name, _MATCHER.findall(matchers)) for name, matchers in _SELECTOR.findall(rest)]
        return cls([one for one in found if one[0] not in _OPERATORS], groupings)


def test_an_expression() -> None:
    found = Expression.of(
        'histogram_quantile(0.9, sum by (a, le) (rate(x_bucket{b="c", d=~"e|f"}[5m]))) > 1e3 and on (g) y == 0 or z'
    )
    assert found.selectors == [("x_bucket", [("b", "=", "c"), ("d", "=~", "e|f")]), ("y", []), ("z", [])]
    assert found.groupings == ["a", "le", "g"]


Samples = dict[str, list[dict[str, str]]]
"""Name of a sample → the labels of each."""


class Scraped(NamedTuple):
    samples: Samples
    values: dict[str, float]
    """Name of a sample → the sum of all."""

    @classmethod
    def of(cls, families: Iterator[Metric]) -> Scraped:
        samples: Samples = {}
        values: dict[str, float] = {}
        for family in families:
            for sample in family.samples:
                samples.setdefault(sample.name, []).append(sample.labels)
                values[sample.name] = values.get(sample.name, 0.0) + sample.value
        return cls(samples, values)

    def labels(self, name: str) -> frozenset[str]:
        return frozenset(label for labels in self.samples[name] for label in labels) | _PLACED

    def check(self, text: str, shown: list[str]) -> None:
        """Fail unless an expression can be answered, and what is shown beside it can be filled in.

        Args:
            text: The expression.
            shown: Labels that stand in texts beside it.
        """
        expression = Expression.of(text)
        assert expression.selectors, text
        names = [name for name, _ in expression.selectors if name != "up"]
        for name, matchers in expression.selectors:
            if name == "up":
                continue
            assert name in self.samples, f"there is no {name}: {text}"
            for label, operator, value in matchers:
                assert label in self.labels(name), f"{name} has no {label}: {text}"
                if label not in _PLACED and operator in {"=", "=~"}:
                    known = {labels.get(label, "") for labels in self.samples[name]}
                    assert set(value.split("|")) <= known, f"{name} has no such {label}: {text}"
        for label in expression.groupings:
            assert all(label in self.labels(name) for name in names), f"not all have {label}: {text}"
        left = set(expression.groupings) if "sum by" in text else set().union(_PLACED, *map(self.labels, names))
        assert set(shown) <= left, f"{set(shown) - left} is not there any more: {text}"


async def scraped(page: str) -> Scraped:
    def read() -> str:
        with urllib.request.urlopen(page.rstrip("/") + "/metrics") as answer:  # noqa: S310 -- of the hub
            return str(answer.read().decode())

    return Scraped.of(iter(text_string_to_metric_families(await asyncio.to_thread(read))))


@pytest.fixture
async def told(start_process: StartProcess, start_workers: StartWorkers, tmp_path: Path) -> AsyncIterator[Scraped]:
    peer = await (await start_process("--listen", "tcp://127.0.0.1:0", "--name", "peer")).wait_up()
    flags = ("--journal", str(tmp_path / "journal"), "--journal-tier", str(tmp_path / "tier"))
    listen = ("tcp://127.0.0.1:0", "ws://127.0.0.1:0")
    hub = await start_workers("--peer", peer.endpoints[0].location, *flags, listen=listen)
    small = QueueWish(messages=5, overflow=Overflow.DROP_OLDEST)
    slow = await RawClient.connect(hub.endpoints[0], receive_bytes=4096)
    try:
        await slow.greet(queue=small)
        await slow.subscribe("/monitored")
        async with connect(hub.endpoints[0].location) as client:
            await client.publish_confirmed("/recorded", 1)
            async with client.consume("billing", "/recorded", from_offset=0) as messages:
                async for message in messages:
                    await message.ack()
                    break
                found = await scraped(hub.page)
                while not found.values["hub_messages_dropped_total"]:
                    for _ in range(100):
                        await client.publish("/monitored", bytes(10_000))
                    await client.drain()
                    found = await scraped(hub.page)
                while "hub_link_lag_seconds" not in found.samples:  # a PING is sent every 5 s
                    await asyncio.sleep(_LOOK_S)
                    found = await scraped(hub.page)
        yield found
    finally:
        slow.close()


async def test_every_expression_can_be_answered(told: Scraped) -> None:
    for rule in ALERTS:
        texts = json.dumps(rule["annotations"])
        told.check(rule["expr"], re.findall(r"\$labels\.(\w+)", texts))
    for _, target in TARGETS:
        told.check(target["expr"], re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    for text, shown in (
        ("rate(hub_messages_lost_total[5m]) > 0", []),
        ("sum by (policy) (hub_messages_dropped_total)", []),
        ('hub_messages_dropped_total{overflow="drop"}', []),
        ("sum by (instance) (hub_messages_dropped_total)", ["overflow"]),
    ):
        with pytest.raises(AssertionError, match=r"there is no|not all have|has no such|not there any more"):
            told.check(text, shown)


def test_the_dashboard_is_whole() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"]
            assert panel["datasource"]["uid"] == "${datasource}"
    assert len(TARGETS) > 40


def test_alerts_are_whole() -> None:
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) > 15
    for rule in ALERTS:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert "$labels.instance" in rule["annotations"]["summary"]


def test_files_that_are_named_are_there() -> None:
    prometheus = yaml.safe_load((EXAMPLE / "prometheus.yml").read_text())
    assert all((EXAMPLE / name).exists() for name in prometheus["rule_files"])
    (job,) = prometheus["scrape_configs"]
    compose = yaml.safe_load((EXAMPLE / "compose.yml").read_text())["services"]
    assert job["static_configs"][0]["targets"] == ["hub:7401"]
    mounted: dict[str, dict[str, str]] = {}
    for name, service in compose.items():
        for volume in service["volumes"]:
            source, _, target = volume.removesuffix(":ro").partition(":")
            mounted.setdefault(name, {})[target] = source
            assert source == "data" or (EXAMPLE / source).exists(), volume
    assert job["authorization"]["credentials_file"] == compose["publisher"]["environment"]["HUB_TOKEN_FILE"]
    assert mounted["hub"]["/data"] == mounted["prometheus"]["/data"] == mounted["publisher"]["/data"] == "data"
    provider = yaml.safe_load((EXAMPLE / "grafana/provisioning/dashboards/topichub.yml").read_text())
    assert mounted["grafana"][provider["providers"][0]["options"]["path"]] == "./grafana/dashboards"
    assert all("127.0.0.1" in port for service in compose.values() for port in service.get("ports", ()))


def test_the_commands_of_the_compose_file_are_understood() -> None:
    from peers.cli.commands import app

    compose: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose.yml").read_text())["services"]
    for name in ("hub", "publisher"):
        app.parse_args(compose[name]["command"], print_error=False, exit_on_error=False)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Prometheus is not installed")
def test_promtool_agrees() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", str(EXAMPLE / "alerts.yml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
