#!/usr/bin/env bash
# Three hubs in a row on this machine, as on three sites: what is published at one end reaches a subscriber at the other.
# hub trace shows the way there.
# Ends by itself. Other addresses: EAST=tcp://127.0.0.1:8001 MIDDLE=... WEST=... run.sh
set -euo pipefail
hub=${HUB:-hub}
command -v "$hub" >/dev/null || { echo "three-sites: there is no '$hub' on the PATH: HUB=.venv/bin/hub $0" >&2; exit 1; }
east=${EAST:-tcp://127.0.0.1:7400} middle=${MIDDLE:-tcp://127.0.0.1:7500} west=${WEST:-tcp://127.0.0.1:7600}
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; wait' EXIT
all_run() { local pid; for pid in "${started[@]}"; do kill -0 "$pid" 2>/dev/null || return 1; done; }
start() { "$hub" run --log-level warning "$@" & started+=($!); }

# Each site needs one link to some other; the ends know nothing of each other.
start --name east --listen "$east"
start --name middle --listen "$middle" --peer "$east"
start --name west --listen "$west" --peer "$middle"
for url in "$east" "$middle" "$west"; do
  until "$hub" check "$url" --quiet 2>/dev/null && all_run; do
    all_run || { echo "three-sites: a hub did not start, see above" >&2; exit 1; }
    sleep 0.2
  done
done

echo "west: hub sub /weather/"
"$hub" sub --url "$west" --format json --limit 3 /weather/ &
reader=$!
started+=($reader)
echo "east: hub trace /weather/now, once it knows that west wants it"
until "$hub" trace --url "$east" --json /weather/now | grep -q '"name":"west"'; do
  all_run || { echo "three-sites: a hub, or the reader, has ended, see above" >&2; exit 1; }
  sleep 0.2 # east learns of the subscriber
done
"$hub" trace --url "$east" /weather/now
echo "east: hub pub /weather/now, until three messages have come"
while kill -0 "$reader" 2>/dev/null; do # what is published before east knows of the subscriber reaches nobody
  "$hub" pub --url "$east" /weather/now '{"sky": "clear"}' >/dev/null
  sleep 0.2
done
wait "$reader"
echo "three messages have crossed two hops"
