#!/usr/bin/env bash
# Starts two nodes and a Redis. Ctrl-C stops them. HIVEMIND=path selects a binary; ADMIN_PORTS and REDIS_PORT replace the ports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${HIVEMIND-}" ] || { cargo build --release --locked && HIVEMIND=../../target/release/hivemind; }
read -r -a admin <<<"${ADMIN_PORTS:-8080 8180}"
trap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT
redis-server --bind 127.0.0.1 --port "${REDIS_PORT:-6390}" --save '' --maxmemory-policy noeviction >/dev/null &
for port in "${admin[@]}"; do
    HIVEMIND_SERVER__GRPC_PORT=0 HIVEMIND_SERVER__METRICS_PORT=0 HIVEMIND_SERVER__ADMIN_PORT=$port \
        HIVEMIND_STORAGE__REDIS__URL=redis://127.0.0.1:${REDIS_PORT:-6390} "$HIVEMIND" serve --config hivemind.yaml >/dev/null 2>&1 &
done
# Ready and connected to Redis: a node without Redis reports `degraded`.
until curl -sf "http://127.0.0.1:{${admin[0]},${admin[1]}}/readyz" | grep -c . | grep -qx 2; do
    [ "$(jobs -rp | wc -l)" -eq 3 ] || exit 1
    sleep 0.2
done
echo "ready: ${admin[*]}"
wait -n
