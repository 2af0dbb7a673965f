"""Alerts and the dashboard of examples/monitoring use metrics, labels and values of docs/reference/metrics.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.server.test_metrics import documented, documented_values

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "monitoring"
ALERTS = [rule for group in yaml.safe_load((EXAMPLE / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
DASHBOARD = json.loads((EXAMPLE / "grafana" / "dashboards" / "topichub.json").read_text())
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
_PLACED = frozenset({"job", "instance"})  # Labels that Prometheus gives to whatever it reads somewhere
_METRICS, _VALUES = documented(), documented_values()
_RANGE = re.compile(r"\[[^\]]*\]")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"([A-Za-z_:][\w:]*)\s*(\{[^}]*\})?(?!\s*[\w:(])")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_OPERATORS = frozenset({"and", "or", "unless", "bool", "offset"})


class Expression(NamedTuple):
    # Names of metrics, each with its matchers: label, operator, value.
    selectors: list[tuple[str, list[tuple[str, str, str]]]]
    groupings: list[str]  # Labels by which it groups or joins

    @classmethod
    def of(cls, text: str) -> Expression:
        groupings = [label.strip() for labels in _GROUPING.findall(text) for label in labels.split(",")]
        rest = _RANGE.sub("", _GROUPING.sub(" ", text))
        found = [(name, _MATCHER.findall(matchers)) for name, matchers in _SELECTOR.findall(rest)]
        return cls([one for one in found if one[0] not in _OPERATORS], groupings)


def check(text: str, shown: list[str]) -> None:
    """Fail unless an expression can be answered, and what is shown beside it can be filled in."""
    expression = Expression.of(text)
    assert expression.selectors, text
    left = _PLACED | {"worker"}
    for name, matchers in expression.selectors:
        if name == "up" or not name.startswith("hub_"):
            continue
        metric = re.sub(r"_(bucket|count|sum)$", "", name) if name not in _METRICS else name
        assert metric in _METRICS, f"there is no {name}: {text}"
        labels = _METRICS[metric].labels | _PLACED | {"worker"} | ({"le"} if name.endswith("_bucket") else set())
        for label, operator, value in matchers:
            assert label in labels, f"{name} has no {label}: {text}"
            if (known := _VALUES[metric].get(label)) and label not in _PLACED and operator in {"=", "=~"}:
                assert set(value.split("|")) <= known, f"{name} has no such {label}: {text}"
        assert set(expression.groupings) <= labels, f"not all have {expression.groupings}: {text}"
        left |= labels
    if "sum by" in text:
        left = frozenset(expression.groupings)
    assert set(shown) <= left, f"{set(shown) - left} is not there any more: {text}"


def test_every_expression_can_be_answered() -> None:
    for rule in ALERTS:
        check(rule["expr"], re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
    for _, target in TARGETS:
        check(target["expr"], re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    for text, shown in (
        ("rate(hub_messages_lost_total[5m]) > 0", []),
        ("sum by (policy) (hub_messages_dropped_total)", []),
        ('hub_handlers{role="server"}', []),
        ("sum by (instance) (hub_messages_dropped_total)", ["overflow"]),
    ):
        with pytest.raises(AssertionError, match=r"there is no|not all have|has no such|not there any more"):
            check(text, shown)


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
