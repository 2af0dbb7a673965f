"""Where settings come from: file, environment and flags, their precedence and their errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from hub.limits import Overflow
from hub.settings.keys import DEFAULT, KEYS, ConfigError, Kind, value_at
from hub.settings.settings import Settings
from peers.daemon.sources import flag, load, variable
from peers.transport.endpoints import Endpoint

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def refusal(
    flags: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None, config_path: str | None = None
) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(flags or {}, environ or {}, config_path)
    assert str(caught.value).isprintable()
    return caught.value


def test_nothing_given() -> None:
    loaded = load({}, {"PATH": "/bin", "HUBBUB": "x"})
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {DEFAULT}
    assert loaded.listen == (Endpoint.parse("tcp://127.0.0.1:7400"), Endpoint.parse("ws://127.0.0.1:7401"))
    assert loaded.peers == ()


def test_precedence(folder: Path) -> None:
    path = write(folder / "my.toml", 'name = "file"\n[queue]\nmessages = 1\nbytes = "1MiB"\noverflow = "disconnect"\n')
    environ = {"HUB_NAME": "environment", "HUB_QUEUE_MESSAGES": "2"}
    loaded = load({"name": "flag", "queue": {"messages": None}}, environ, path)
    assert loaded.settings.name == "flag"
    assert loaded.settings.queue.messages == 2
    assert loaded.settings.queue.bytes == 1024 * 1024
    assert loaded.settings.queue.overflow is Overflow.DISCONNECT
    assert {key: origin for key, origin in loaded.origins.items() if origin != DEFAULT} == {
        "name": "flag --name",
        "queue.messages": "environment HUB_QUEUE_MESSAGES",
        "queue.bytes": path,
        "queue.overflow": path,
    }


def test_which_file(folder: Path) -> None:
    write(folder / "hub.toml", 'name = "here"')
    named = write(folder / "named.toml", 'name = "named"')
    other = write(folder / "other.toml", 'name = "other"')
    assert load({}, {}).origins["name"] == "hub.toml"
    assert load({}, {"HUB_CONFIG": ""}).settings.name == "here"
    assert load({}, {"HUB_CONFIG": named}).settings.name == "named"
    assert load({}, {"HUB_CONFIG": named}, other).settings.name == "other"


def test_file_that_is_named_must_exist(folder: Path) -> None:
    missing = str(folder / "missing.toml")
    assert str(refusal(config_path=missing)) == f"{missing}: there is no such file"
    assert refusal(environ={"HUB_CONFIG": missing}).source == missing


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"[queue]\nmessages = \n", "not TOML: .*line 2"),
        (b"[queue\n", "not TOML: .*line 1"),
        (b"name = 1\nname = 2\n", "not TOML: .*line 2"),
        (b'# fine\n\nname = "\xff"\n', "not UTF-8 .at line 3"),
        (b"\x00", "not TOML: .*line 1"),
        (b"listen = " + b"[" * 100_000, "nested too deep"),
        (b"name = " + b"9" * 5000, "not TOML: Exceeds the limit"),
        (b"#" * 2_000_000, "larger than 1048576 bytes"),
    ],
    ids=["value", "table", "twice", "encoding", "binary", "deep", "digits", "large"],
)
def test_not_toml(folder: Path, content: bytes, cause: str) -> None:
    path = write(folder / "bad.toml", content)
    error = refusal(config_path=path)
    assert error.source == path
    assert re.search(cause, error.reason)


SAMPLES = {
    Kind.COUNT: ("7", 7),
    Kind.SIZE: ("64KiB", 65_536),
    Kind.SECONDS: ("7.5", 7.5),
    Kind.TEXT: ("seven", "seven"),
    Kind.TEXTS: ("tcp://a:1,tcp://b:2", ("tcp://a:1", "tcp://b:2")),
}

# Of keys that take no value of their kind's sample.
SAMPLES_OF_KEYS = {
    "websocket.hosts": ("a.org,b.org", ("a.org", "b.org")),
    "stores.open": ("a=:memory:,b=:memory:", ("a=:memory:", "b=:memory:")),
    "stores.feeds": ("a=/status/,a=/b", ("a=/status/", "a=/b")),
    "unix.mode": ("0660", "0660"),
    "zeek.masters": ("a,zeek/known/hosts=a", ("a", "zeek/known/hosts=a")),
    "zeek.clones": ("zeek/known/hosts=a", ("zeek/known/hosts=a",)),
}


@pytest.mark.parametrize("path", KEYS)
def test_every_key_by_variable_and_flag(path: str) -> None:
    key = KEYS[path]
    text, value = SAMPLES_OF_KEYS.get(path) or SAMPLES.get(key.kind, (key.choices[-1:] or ("",)) * 2)
    if key.kind is Kind.CHOICE:
        text = value = key.choices[-1]
    room = {"HUB_QUEUE_BYTES": "64KiB", "HUB_QUEUE_MESSAGES": "7"} if path.startswith("queue_max.") else {}
    room |= {"HUB_JOURNAL_PATH": "journal"} if path == "journal.tier" else {}
    room |= {"HUB_STORES_OPEN": "a=:memory:"} if path in {"stores.feeds", "zeek.masters", "zeek.clones"} else {}
    loaded = load({}, {**room, variable(path): str(text)})
    assert value_at(loaded.settings, path) == value
    assert loaded.origins[path] == f"environment {variable(path)}"
    section, _, name = path.rpartition(".")
    loaded = load({section: {name: text}} if section else {name: text}, room)
    assert value_at(loaded.settings, path) == value
    assert loaded.origins[path] == f"flag {flag(path)}"


def test_lists_on_the_command_line() -> None:
    flags = {"zeek": {"topics": ["/a,/b", "/c"]}, "listen": ["tcp://127.0.0.1:7400", "ws://127.0.0.1:7401"]}
    settings = load(flags, {}).settings
    assert settings.zeek.topics == ("/a", "/b", "/c")
    assert settings.listen == ("tcp://127.0.0.1:7400", "ws://127.0.0.1:7401")


def test_unknown_variable() -> None:
    error = refusal(environ={"HUB_QUEUE_MESAGES": "5"})
    assert str(error) == "environment HUB_QUEUE_MESAGES: unknown variable; did you mean HUB_QUEUE_MESSAGES?"
    assert "did you mean HUB_TOKEN?" in str(refusal(environ={"HUB_TOKENS": "x"}))


@pytest.mark.parametrize("name", ["HUB_SERVICE_HOST", "HUB_PORT", "HUB_PORT_7400_TCP_ADDR"])
def test_variables_of_kubernetes(name: str) -> None:
    assert "enableServiceLinks: false" in str(refusal(environ={name: "x"}))


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("http://h:1", "unknown scheme"),
        ("ws://h:1/other", "leave '/other' out"),
        ("zeek+zmq://h:1?name=a", "name is for --peer"),
        ("tcp://h:1?messages=1000001", "messages=1000001 is more than queue_max.messages = 1000000"),
        ("tcp://h:1?bytes=1GiB", "bytes=1073741824 is more than queue_max.bytes = 268435456"),
    ],
)
def test_wrong_listener(url: str, cause: str) -> None:
    error = refusal({"listen": [url]})
    assert (error.source, error.key) == ("flag --listen", "listen")
    assert url in error.reason
    assert cause in error.reason


@pytest.mark.parametrize(
    ("url", "cause"),
    [
        ("tcp://h:0", "port 0"),
        ("tcp://h", "port missing"),
        ("ws://h:7401", "over tcp://, tls:// or unix://"),
        ("tcp://h:1?messages=5", "URL of a listener"),
    ],
)
def test_wrong_peer(url: str, cause: str) -> None:
    error = refusal(environ={"HUB_PEERS": url})
    assert (error.source, error.key) == ("environment HUB_PEERS", "peers")
    assert url in error.reason
    assert cause in error.reason


EVERY_KEY = (Path(__file__).parent / "every_key.toml").read_text()


def test_every_key_from_a_file(folder: Path) -> None:
    write(folder / "hub.toml", EVERY_KEY)
    loaded = load({}, {})
    assert set(loaded.origins.values()) == {"hub.toml"}
    assert loaded.settings.queue.messages == tomllib.loads(EVERY_KEY)["queue"]["messages"]


def test_documented_example(folder: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    write(folder / "hub.toml", example)
    loaded = load({}, {})
    assert loaded.settings.queue.messages == tomllib.loads(example)["queue"]["messages"]
