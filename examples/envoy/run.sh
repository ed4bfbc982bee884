#!/usr/bin/env bash
# Starts Hivemind, an upstream and Envoy. Ctrl-C stops all of them. HIVEMIND=path and ENVOY=path select binaries; PORT,
# APP_PORT, GRPC_PORT and ADMIN_PORT replace 10000, 8000, 8081 and 8080.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${HIVEMIND-}" ] || { cargo build --release --locked && HIVEMIND=../../target/release/hivemind; }
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
sed "s/port_value: 10000/port_value: ${PORT:-10000}/; s/port_value: 8000/port_value: ${APP_PORT:-8000}/; s/port_value: 8081/port_value: ${GRPC_PORT:-8081}/" \
    envoy.yaml >"$scratch/envoy.yaml"
HIVEMIND_SERVER__GRPC_PORT=${GRPC_PORT:-8081} HIVEMIND_SERVER__ADMIN_PORT=${ADMIN_PORT:-8080} HIVEMIND_SERVER__METRICS_PORT=0 \
    "$HIVEMIND" serve --rules rules.yaml &
python3 -m http.server --bind 127.0.0.1 "${APP_PORT:-8000}" >/dev/null 2>&1 &
command -v "${ENVOY:-envoy}" >/dev/null || { echo 'Envoy not found: install it or set ENVOY=path; Hivemind runs without it.'; wait; exit; }
"${ENVOY:-envoy}" -c "$scratch/envoy.yaml" --use-dynamic-base-id --log-level warning &
wait -n
