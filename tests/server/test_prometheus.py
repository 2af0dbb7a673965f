"""Prometheus itself reads a hub: it accepts the metrics, and answers each query of alerts and dashboard."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from peers.embedding import Hub
from tests.hubs.ports import free_ports

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "monitoring"
ALERTS = EXAMPLE / "alerts.yml"
DASHBOARD = EXAMPLE / "grafana" / "dashboards" / "topichub.json"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.prefix) / "prometheus" / "usr" / "bin"))
    if found is None:
        pytest.skip("PROMETHEUS IS MISSING: alerts and dashboard were NOT tried in it")
    return found


def queries() -> list[str]:
    rules = [rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    variables = {"$__rate_interval": "1m", "$__interval": "1m", "$__range": "5m"}
    for name, value in variables.items():
        shown = [text.replace(name, value) for text in shown]
    return rules + [re.sub(r"\$\w+|\$\{\w+\}", ".*", text) for text in shown]


def test_promtool_accepts_rules() -> None:
    done = subprocess.run([program("promtool"), "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
async def prometheus(tmp_path: Path) -> AsyncIterator[int]:
    hub_port, port = free_ports(2)
    scraped = [{"job_name": "topichub", "static_configs": [{"targets": [f"127.0.0.1:{hub_port}"]}]}]
    config = {"global": {"scrape_interval": "1s"}, "rule_files": [str(ALERTS)], "scrape_configs": scraped}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        program("prometheus"),
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
    ]
    async with Hub(listen=[f"ws://127.0.0.1:{hub_port}"]):
        process = await asyncio.create_subprocess_exec(
            *command, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error", stderr=asyncio.subprocess.DEVNULL
        )
        try:
            yield port
        finally:
            process.kill()
            await process.wait()


async def ask(port: int, query: str) -> dict[str, Any]:
    def get() -> bytes:
        with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
            connection.request("GET", f"/api/v1/query?query={quote(query)}")
            return connection.getresponse().read()

    answer: dict[str, Any] = json.loads(await asyncio.to_thread(get))
    return answer


async def test_prometheus_answers_every_query(prometheus: int) -> None:
    async with asyncio.timeout(60):
        answer: dict[str, Any] = {}
        while not answer.get("data", {}).get("result"):
            await asyncio.sleep(0.2)
            with suppress(OSError):  # it is starting
                answer = await ask(prometheus, "hub_connections")
    assert (await ask(prometheus, "up"))["data"]["result"][0]["value"][1] == "1"
    failed = {
        query: answer["error"] for query in queries() if (answer := await ask(prometheus, query))["status"] != "success"
    }
    assert failed == {}
