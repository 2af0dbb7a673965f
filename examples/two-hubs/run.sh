#!/usr/bin/env bash
# Two peered hubs on this machine: what is published at one reaches subscribers of the other. Ends with Ctrl-C.
set -euo pipefail
hub=${HUB:-hub}
"$hub" run --name east --listen tcp://127.0.0.1:7400 --listen ws://127.0.0.1:7401 &
east=$!
"$hub" run --name west --listen tcp://127.0.0.1:7500 --listen ws://127.0.0.1:7501 --peer tcp://127.0.0.1:7400 &
west=$!
trap 'kill $east $west' EXIT
cat <<'TEXT'

Try, in other shells:
  hub sub --url tcp://127.0.0.1:7500 /weather/
  hub pub --url tcp://127.0.0.1:7400 /weather/now '{"sky": "clear"}'

TEXT
wait
