#!/usr/bin/env bash
# Starts a WebSocket echo app and the gateway in front of it. Ctrl-C stops both.
# HIVEMIND=path selects a binary; PORT and APP_PORT replace 10080 and 3000.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${HIVEMIND-}" ] || { cargo build --release --locked && HIVEMIND=../../target/release/hivemind; }
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
sed "s/:3000/:${APP_PORT:-3000}/; s/:10080/:${PORT:-10080}/" hivemind.yaml >"$scratch/hivemind.yaml"
python3 echo.py "${APP_PORT:-3000}" &
"$HIVEMIND" gateway --config "$scratch/hivemind.yaml" &
wait -n
