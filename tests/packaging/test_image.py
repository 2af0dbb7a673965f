"""What the image installs: pinned, small, without pip; and the image itself, where it can be built."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hub import __version__
from release.audit import findings

PROJECT = Path(__file__).parents[2]
DOCKERFILE = (PROJECT / "Dockerfile").read_text()
SIZE_LIMIT_BYTES = 60_000_000  # over the base image

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def pinned(name: str) -> dict[str, str]:
    """Return versions by name; each has a hash at least."""
    text = (PROJECT / "release" / name).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in lines)
    return {canonicalize_name(line.partition("==")[0]): re.split(r"[ ;]", line.partition("==")[2])[0] for line in lines}


def test_pins_fit_what_the_project_requires() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    wanted = project["project"]["dependencies"] + extras["cli"] + extras["server"] + extras["fast"]
    for required, pins in (
        (wanted, pinned("requirements.txt")),
        (project["build-system"]["requires"], pinned("build-requirements.txt")),
    ):
        for one in map(Requirement, required):
            if one.name != "topichub":
                assert one.specifier.contains(pins[canonicalize_name(one.name)]), one


def test_an_audit_reports_vulnerabilities_and_packages_that_were_not_checked() -> None:
    vulnerability = {"id": "PYSEC-1", "fix_versions": ["2.1"]}
    dependencies = [
        {"name": "a", "version": "2", "vulns": [vulnerability]},
        {"name": "b", "version": "1", "vulns": []},
        {"name": "c", "skip_reason": "no answer"},
    ]
    assert findings(json.dumps({"dependencies": dependencies})) == (["a 2: PYSEC-1, fixed in 2.1"], ["c"], 3)


def test_the_folder_is_small_runs_a_hub_and_has_no_pip(tmp_path: Path) -> None:
    target = tmp_path / "topichub"
    twins = "required" if shutil.which("gcc") or shutil.which("cc") else "none"
    done = subprocess.run(
        [PROJECT / "release" / "install.sh", target],
        env=os.environ | {"PYTHON": sys.executable, "TOPICHUB_TWINS": twins, "CFLAGS": "-O1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    files = [path for path in target.rglob("*") if path.is_file() and not path.is_symlink()]
    if shutil.which("strip"):
        assert sum(path.stat().st_size for path in files) < SIZE_LIMIT_BYTES
    assert not [path for path in files if path.suffix in {".c", ".pyx"} and "topichub" in path.parts[-3]]
    assert not list(target.glob("lib/python*/site-packages/pip"))
    program = [target / "bin" / "hub", "doctor", "--listen", "tcp://127.0.0.1:0", "--json"]
    done = subprocess.run(program, cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert f"topichub {__version__}" in done.stdout
    assert '"state":"error"' not in done.stdout


def test_the_dockerfile_is_the_one_that_operators_expect() -> None:
    assert f"ARG VERSION={__version__}" in DOCKERFILE
    final = DOCKERFILE.rpartition("FROM ${BASE}")[2]
    assert {"USER 10001", "STOPSIGNAL SIGTERM", "VOLUME /data", 'ENTRYPOINT ["hub"]'} <= set(final.splitlines())
    assert "HEALTHCHECK" in final
    assert "apt-get" not in final


def test_the_image_starts_healthy_with_an_empty_data_folder_of_its_own() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("NO DOCKER DAEMON HERE: the image was NOT built")
    base = re.findall(r"^ARG BASE=(.*)$", DOCKERFILE, re.MULTILINE)[0]
    if subprocess.run([docker, "image", "inspect", base], capture_output=True, check=False).returncode:
        pytest.skip(f"{base} IS NOT HERE: the image was NOT built")
    subprocess.run([docker, "build", "-t", "topichub:test", PROJECT], check=True)
    run = [docker, "run", "--rm", "--network", "none", "--entrypoint"]
    listed = subprocess.run([*run, "ls", "topichub:test", "-A", "/data"], capture_output=True, text=True, check=True)
    assert listed.stdout == ""
    assert (
        subprocess.run([*run, "id", "topichub:test", "-u"], capture_output=True, text=True, check=True).stdout
        == "10001\n"
    )
    assert subprocess.run([*run, "sh", "topichub:test", "-c", "! command -v pip gcc"], check=False).returncode == 0
    started = subprocess.run([docker, "run", "--rm", "-d", "topichub:test"], capture_output=True, text=True, check=True)
    container = started.stdout.strip()
    try:
        check = ["hub", "check", "ws://127.0.0.1:7401", "--timeout", "30"]
        subprocess.run([docker, "exec", container, *check], check=True)
    finally:
        subprocess.run([docker, "stop", container], check=True, capture_output=True)
