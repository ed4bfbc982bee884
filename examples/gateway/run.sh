#!/usr/bin/env bash
# Starts the gateway with an imported nginx configuration in front of an app. Ctrl-C stops both.
# HIVEMIND=path selects a binary; PORT and APP_PORT replace 10080 and 3000.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${HIVEMIND-}" ] || { cargo build --release --locked && HIVEMIND=../../target/release/hivemind; }
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
sed "s/:3000/:${APP_PORT:-3000}/; s/:10080/:${PORT:-10080}/" nginx.conf >"$scratch/nginx.conf"
"$HIVEMIND" import nginx "$scratch/nginx.conf" --output "$scratch/hivemind.yaml"
chmod o-r "$scratch/hivemind.yaml"
"$HIVEMIND" check "$scratch/hivemind.yaml"
python3 -m http.server --bind 127.0.0.1 "${APP_PORT:-3000}" >/dev/null 2>&1 &
"$HIVEMIND" gateway --config "$scratch/hivemind.yaml" &
wait -n
