"""Which hub a command talks to, and as whom: flags of all commands, contexts (hubs by name), and `hub context`.

```
$XDG_CONFIG_HOME/topichub/contexts.json   (~/.config/topichub/contexts.json)
{"use": "work", "contexts": {"work": {"url": "tls://hub.example.org:7400", "token_file": "/home/ada/token"}}}
```

The file has paths of tokens, no tokens; a token is never a flag. A file that others may write is not used: they could
redirect the token. Annotations are not postponed here, nor in `peers.cli.pub`: cyclopts would compile each twice.
"""

import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import cyclopts
import msgspec
from cyclopts import App, Parameter
from cyclopts.argument import Argument, ArgumentCollection

from hub.errors import UsageError
from hub.topics import printable
from peers.cli.texts import FlagError, columns, encoder, examples
from peers.transport.endpoints import Endpoint
from peers.wire.hello import NAME_LIMIT_BYTES

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")

_FOR_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Context(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The URL of a hub, and absolute paths of the files that are shown to it."""

    url: str
    token_file: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""


class Contexts(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    use: str = ""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise FlagError(f"there is no context {printable(name)}; `hub context ls` lists them: {known}")
        return self.contexts[name]


def _path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path.home() / ".config"  # XDG: relative paths are ignored
    return folder / "topichub" / "contexts.json"


def read_contexts() -> Contexts:
    """Return the contexts; none, if there is no file. Raises `UsageError` if it cannot be used."""
    path = _path()
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & _FOR_OTHERS:
                raise UsageError(f"{path}: others may write this file, so it is not used: chmod 600 {path}")
            found = msgspec.json.decode(file.read(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: not a file of contexts: {error}") from error
    if found.use and found.use not in found.contexts:
        raise UsageError(f"{path}: the context in use, {printable(found.use)}, is not there: hub context use NAME")
    return found


def write_contexts(contexts: Contexts) -> None:
    """Replace the file, readable for its owner alone; raise `UsageError` if that fails."""
    path = _path()
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    text = msgspec.json.format(msgspec.json.encode(contexts), indent=2) + b"\n"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor
            os.fchmod(descriptor, 0o600)  # the file may have been there, with another mode
            file.write(text)
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def context_names(_: object) -> list[str]:
    return sorted(read_contexts().contexts)


def fill(_app: App, _commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give a command that talks to a hub the flags of its context: called by cyclopts.

    | named by | used |
    |---|---|
    | `--context NAME` | the context; of the environment only `HUB_TOKEN`, if the context names no token file |
    | `HUB_CONTEXT` | the same, unless `--url` is given |
    | nothing | `--url`, else `HUB_URL`; without both the context in use (`hub context use`); else the default |
    """
    by_name = {argument.name: argument for argument in arguments}
    if "--context" not in by_name:
        return
    flag, url = by_name["--context"], by_name["--url"]
    if _is_given(flag) and _is_given(url):
        raise FlagError("--context and --url exclude each other")
    if _is_given(url) or (not flag.has_tokens and url.has_tokens):
        return
    contexts = read_contexts()
    name = flag.tokens[-1].value if flag.has_tokens else contexts.use
    for field, text in msgspec.structs.asdict(contexts.named(name)).items() if name else ():
        keyword = f"--{field.replace('_', '-')}"
        if (argument := by_name.get(keyword)) is None:
            continue
        if flag.has_tokens and not _is_given(argument):
            argument.tokens.clear()  # the environment does not count for a hub that is named
        if text and not argument.has_tokens:
            argument.append(cyclopts.Token(keyword=keyword, value=text, source=f"context {name}"))


def _is_given(argument: Argument) -> bool:
    return any(token.source == "cli" for token in argument.tokens)  # cyclopts' name of the command line


ContextName = Annotated[
    str,
    Parameter(
        name="--context",
        env_var="HUB_CONTEXT",
        help="Name of a hub in `hub context`, in place of --url, token and TLS files.",
        show_default=False,
        completer=context_names,
    ),
]

ASKED = "-"

_TERMINAL = Path("/dev/tty")

TokenFile = Annotated[
    str,
    Parameter(
        name="--token-file",
        env_var="HUB_TOKEN_FILE",
        help="File with the token that authenticates this client; - asks for it. Default: the token in HUB_TOKEN.",
        allow_leading_hyphen=True,  # for -, which asks
        show_default=False,
    ),
]


def text_or_path(file: str) -> tuple[str, str]:
    """Return the token, or the path of its file; the other text is empty. Raises `FlagError`."""
    token = first_token(file)  # reads the file, too, so that a mistake is reported at once
    return (token, "") if file in {"", ASKED} else ("", file)


def first_token(file: str) -> str:
    """Return the token as it is now, or raise `FlagError`, without showing any of it."""
    if not file:
        return os.environ.get("HUB_TOKEN", "")
    from peers.client.token_source import read_token  # noqa: PLC0415 -- with the client, which some commands do not need

    try:
        return _ask() if file == ASKED else read_token(file)
    except UsageError as error:
        raise FlagError(f"--token-file: {error}") from error


def _ask() -> str:
    try:
        with _TERMINAL.open():
            pass
    except OSError as error:
        raise UsageError("there is no terminal to ask for the token; name a file, or set HUB_TOKEN") from error
    import getpass  # noqa: PLC0415 -- rarely needed

    from peers.client.token_source import checked  # noqa: PLC0415 -- as above

    token = checked(getpass.getpass("token: ").strip())
    if not token:
        raise UsageError("no token was given")
    return token


DEFAULT_URL = "tcp://127.0.0.1:7400"
"""Default of `hub run`."""

URL_VARIABLE = "HUB_URL"

HubUrl = Annotated[
    str,
    Parameter(
        name="--url",
        env_var=URL_VARIABLE,
        help="The hub: tcp://host:port, tls://host:port, unix:///path, ws://host:port or wss://host:port.",
    ),
]

_CA_HELP = "Over TLS: PEM file of CA certificates. Default: those of the system."
_CERTIFICATE_HELP = "Over TLS: PEM file of a client certificate, for a hub that asks for one."
_KEY_HELP = "PEM file of the key of that certificate."


def _file(text: str, variable: str | None = None) -> Parameter:
    return Parameter(env_var=variable, help=text, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True)
class TlsFiles:
    """Files for TLS."""

    ca: Annotated[str, _file(_CA_HELP, "HUB_CA")] = ""
    certificate: Annotated[str, _file(_CERTIFICATE_HELP, "HUB_CERTIFICATE")] = ""
    key: Annotated[str, _file(_KEY_HELP, "HUB_KEY")] = ""


@Parameter(name="*")
@dataclass(frozen=True)
class HubFlags:
    """URL, name, token and TLS files of a connection. Contexts have been applied (`fill`)."""

    url: HubUrl = DEFAULT_URL
    context: ContextName = ""
    name: Annotated[
        str, _file("Name of this client in the hub's logs and `hub top`, up to 64 bytes. Default: the command.")
    ] = ""
    token_file: TokenFile = ""
    tls: TlsFiles = TlsFiles()


DEFAULT_HUB = HubFlags()

Json = Annotated[bool, Parameter(help="A JSON object a line.")]


def check_client_name(name: str) -> None:
    """Raise `FlagError` if a hub would not take this name for a client."""
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError as error:
        raise FlagError(f"--name: not UTF-8 at character {error.start}") from error
    if size_bytes > NAME_LIMIT_BYTES:
        raise FlagError(f"--name: {size_bytes} bytes given, at most {NAME_LIMIT_BYTES} are taken")


def add(  # noqa: PLR0913 -- one flag each
    name: Annotated[str, Parameter(help="Name of the context.")],
    /,
    *,
    url: Annotated[str, Parameter(help="tcp://, tls://, ws:// or wss:// with host:port, or unix:///path.")],
    token_file: Annotated[str, _file("File with the token that authenticates this client.")] = "",
    ca: Annotated[str, _file(_CA_HELP)] = "",
    certificate: Annotated[str, _file(_CERTIFICATE_HELP)] = "",
    key: Annotated[str, _file(_KEY_HELP)] = "",
    use: Annotated[bool, Parameter(help="Make it the default, where no hub is named.")] = False,
    replace: Annotated[bool, Parameter(help="Replace an existing context of this name.")] = False,
) -> None:
    """Save a hub under a name, for `--context`. Only the path of the token file is stored, not the token."""
    if not _NAME.fullmatch(name):
        raise FlagError(f"{printable(name)}: the name of a context is up to 64 letters, digits, dots, - and _")
    Endpoint.parse_remote(url)
    if token_file == ASKED:
        raise FlagError("--token-file: a context names a file; `-` is for the commands")
    first_token(token_file)  # a mistake is reported at once
    for flag, path in (("--ca", ca), ("--certificate", certificate), ("--key", key)):
        if path and not Path(path).is_file():
            raise FlagError(f"{flag}: there is no file {path}")
    contexts = read_contexts()
    if name in contexts.contexts and not replace:
        raise FlagError(f"there is a context {name} already; --replace replaces it")
    files = (path and str(Path(path).absolute()) for path in (token_file, ca, certificate, key))
    contexts.contexts[name] = Context(url, *files)
    if use:
        contexts.use = name
    write_contexts(contexts)


def ls(*, json: Json = False) -> None:
    """List the saved hubs by name."""
    contexts = read_contexts()
    found = sorted(contexts.contexts.items())
    if json:
        for name, context in found:
            fields = {field: text or None for field, text in msgspec.structs.asdict(context).items()}
            print(encoder.encode({"name": name, "in_use": name == contexts.use, **fields}).decode())
        return
    if not found:
        print("hub context: there are no contexts; hub context add NAME --url URL makes one", file=sys.stderr)
    rows = [(name, "yes" if name == contexts.use else "", one.url, one.token_file) for name, one in found]
    for line in columns(("name", "in use", "url", "token file"), rows):
        print(line)


def rm(name: Annotated[str, Parameter(help="Name of the context.", completer=context_names)], /) -> None:
    """Remove a context; if it was in use, no context is. Its token file stays."""
    contexts = read_contexts()
    contexts.named(name)
    del contexts.contexts[name]
    if contexts.use == name:
        contexts.use = ""
    write_contexts(contexts)


def use(
    name: Annotated[str, Parameter(help="Name of the context.", completer=context_names)] = "",
    /,
    *,
    none: Annotated[bool, Parameter(help="Use no context: the default URL applies again.")] = False,
) -> None:
    """Use a context by default, where neither `--url` nor `--context` names a hub."""
    if bool(name) == none:
        raise FlagError("give the name of a context, or --none")
    contexts = read_contexts()
    if name:
        contexts.named(name)
    contexts.use = name
    write_contexts(contexts)


app = App(
    name="context",
    help="Named hubs, each with URL, token and TLS files: add, list, use.",
    help_epilogue=examples(
        "hub context add prod --url tls://hub.example.org:7400 --token-file prod.token", "hub context use prod"
    ),
)
app.command(add, name="add", help="Save a hub under a name.")
app.command(ls, name="ls", help="List the contexts, and which one is in use.")
app.command(use, name="use", help="Make a context the default, where no hub is named.")
app.command(rm, name="rm", help="Remove a context. The files it names stay.")
