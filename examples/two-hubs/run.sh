#!/usr/bin/env bash
# Two peered hubs on this machine: what is published at one reaches subscribers of the other. Ends with Ctrl-C.
set -euo pipefail
hub=${HUB:-hub}
command -v "$hub" >/dev/null || { echo "two-hubs: there is no '$hub' on the PATH: HUB=.venv/bin/hub $0" >&2; exit 1; }
"$hub" run --name east --listen tcp://127.0.0.1:7400 --listen ws://127.0.0.1:7401 &
east=$!
"$hub" run --name west --listen tcp://127.0.0.1:7500 --listen ws://127.0.0.1:7501 --peer tcp://127.0.0.1:7400 &
west=$!
# One that could not start (its port is taken) has said why, and is gone: the other one is ended, too.
trap 'kill $east $west 2>/dev/null || true' EXIT
both_run() { kill -0 "$east" 2>/dev/null && kill -0 "$west" 2>/dev/null; }
for port in 7400 7500; do
  until "$hub" check "tcp://127.0.0.1:$port" --quiet 2>/dev/null && both_run; do
    both_run || { echo "two-hubs: one of the hubs did not start, see above" >&2; exit 1; }
    sleep 0.2
  done
done
cat <<'TEXT'

Try, in other shells:
  hub sub --url tcp://127.0.0.1:7500 /weather/
  hub pub --url tcp://127.0.0.1:7400 /weather/now '{"sky": "clear"}'

TEXT
wait -n # whichever ends first
