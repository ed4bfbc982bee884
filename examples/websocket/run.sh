#!/usr/bin/env bash
# An app that echoes over WebSockets, and the gateway before it. Ctrl-C ends both.
# HIVEMIND=path takes that binary; PORT and APP_PORT are for machines where 10080 and 3000 are taken.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${HIVEMIND-}" ] || { cargo build --release --locked && HIVEMIND=../../target/release/hivemind; }
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
sed "s/:3000/:${APP_PORT:-3000}/; s/:10080/:${PORT:-10080}/" hivemind.yaml >"$scratch/hivemind.yaml"
python3 echo.py "${APP_PORT:-3000}" &
"$HIVEMIND" gateway --config "$scratch/hivemind.yaml" &
wait -n
