"""The commands of `hub` by group, with help and examples. Each module is loaded when its command is called."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from cyclopts import App, Group, Parameter

from hub import __version__
from peers.cli.contexts import fill
from peers.cli.texts import examples


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish", "powershell"], Parameter(help="Shell to complete in.")], /
) -> None:
    """Write the completion script to standard output. docs/command-line.md says where each shell looks for it."""
    from peers.cli.commands import app  # noqa: PLC0415 -- it knows this command, too

    print(app.generate_completion(shell=shell))


class _Command(NamedTuple):
    """A command: its function, its help in a line, and examples."""

    path: str
    help: str
    examples: tuple[str, ...] = ()


_GROUPS: dict[str, dict[str, _Command]] = {
    "Start here": {
        "run": _Command(
            "run:run",
            "Start a hub: listen, peer with other hubs, run until a signal.",
            ("hub run", "hub run --listen tcp://0.0.0.0:7400 --journal journal --queue-overflow drop-newest"),
        ),
        "pub": _Command(
            "pub:pub",
            "Publish a value, lines from stdin, or a file of records.",
            ("""hub pub /zeek/dns '{"query": "example.org"}'""", "hub pub --ndjson dns.log.gz --topic '/zeek/{_path}'"),
        ),
        "sub": _Command(
            "sub:sub", "Show messages as they arrive.", ("hub sub /zeek/", "hub sub /zeek/ --from-offset 0 --limit 100")
        ),
        "top": _Command(
            "top:top",
            "Show clients and links with their rates and losses: a live table.",
            ("hub top --sort dropped", "hub top --once --json"),
        ),
    },
    "Messages": {
        "request": _Command(
            "requests:request",
            "Send a request to a service, and show the reply.",
            ("hub request /sum '[1, 2, 3]'", "hub request org.example.Player play --service --timeout 5"),
        ),
        "serve": _Command(
            "requests:serve",
            "Answer requests with a shell command.",
            ("hub serve /upper --exec 'tr a-z A-Z'", "hub serve /echo --exec cat"),
        ),
        "consume": _Command(
            "consume:consume",
            "Write a named consumer's messages, and acknowledge them.",
            ("hub consume billing /app/ --limit 10", "hub consume billing /app/ --from-offset 0"),
        ),
        "store": _Command("store:app", "Read, write and watch stores: shared entries by key."),
        "names": _Command(
            "admin:names", "List service names and their owners.", ("hub names", "hub names org.example. --json")
        ),
    },
    "Watch a hub": {
        "check": _Command(
            "check:check",
            "Check the health of a hub; the exit code is for health checks.",
            ("hub check", "hub check tcp://127.0.0.1:7400 --json"),
        ),
        "who": _Command(
            "admin:who", "List connections, with user, address and age: for admins.", ("hub who", "hub who --json")
        ),
        "users": _Command(
            "admin:users",
            "List the users that a hub knows, with their roles: for admins.",
            ("hub users", "hub users --json"),
        ),
        "mesh": _Command("admin:mesh", "Show the hubs of a mesh and their links.", ("hub mesh", "hub mesh --json")),
        "trace": _Command(
            "admin:trace",
            "Show the path of a topic through the mesh: for admins.",
            ("hub trace /zeek/dns", "hub trace /zeek/dns --json"),
        ),
    },
    "Administer": {
        "kick": _Command(
            "admin:kick",
            "Disconnect a client, or all clients of a user: for admins.",
            ("hub kick 17", "hub kick --user ann"),
        ),
        "reload": _Command(
            "admin:reload",
            "Reload the settings and users of a hub: for admins.",
            ("hub reload", "hub reload --token-file admin.token"),
        ),
        "drain": _Command(
            "admin:drain",
            "Move all clients off a hub, and stop it: for admins.",
            ("hub drain", "hub drain --url unix:///run/hub.sock"),
        ),
        "check-config": _Command(
            "run:check_config",
            "Show the effective settings, and where each came from.",
            ("hub check-config --explain", "hub check-config --config hub.toml --json"),
        ),
        "doctor": _Command(
            "doctor:doctor",
            "Check an installation: ports, files, certificates, limits; with fixes.",
            ("hub doctor --config hub.toml", "hub doctor --bundle support.tar.gz"),
        ),
        "policy": _Command("access:policy_app", "Check a policy, and test its permissions."),
        "token": _Command("access:token_app", "Make, list and revoke tokens of users."),
        "curve": _Command("access:curve_app", "Make CURVE keys for Zeek clusters over ZeroMQ."),
    },
    "Recorded messages": {
        "journal": _Command("journal:app", "Inspect a journal, export its records, verify it, back it up."),
        "spark": _Command("spark:app", "Process archives with Apache Spark, here or on a cluster."),
    },
    "This program": {
        "context": _Command("contexts:app", "Give hubs names, with the URL and token of each."),
        "completion": _Command(
            "commands:completion",
            "Write a completion script for a shell.",
            ("hub completion bash > ~/.local/share/bash-completion/completions/hub", "hub completion fish"),
        ),
        "bench": _Command("bench:app", "Measure throughput, latency and loss through a hub."),
    },
}

app = App(
    name="hub",
    help="A topic-prefix publish/subscribe hub: bounded queues, a choice on overflow, and no silent drops.",
    version=__version__,
    # `peers.cli.main` reports errors of a command line, in one line.
    print_error=False,
    exit_on_error=False,
    config=fill,
    default_parameter=Parameter(negative=()),
)
for place, (title, commands) in enumerate(_GROUPS.items()):
    group = Group(title, sort_key=place)
    for number, (name, command) in enumerate(commands.items()):
        epilogue = {"help_epilogue": examples(*command.examples)} if command.examples else {}
        app.command(f"peers.cli.{command.path}", name=name, help=command.help, group=group, sort_key=number, **epilogue)
app["--help"].group = app["--version"].group = group
