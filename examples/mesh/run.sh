#!/usr/bin/env bash
# Starts three nodes of a mesh. Ctrl-C stops them. HIVEMIND=path selects a binary; ADMIN_PORTS and MESH_PORTS replace the ports.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ -n "${HIVEMIND-}" ] || { cargo build --release --locked && HIVEMIND=../../target/release/hivemind; }
read -r -a admin <<<"${ADMIN_PORTS:-8080 8180 8280}"
read -r -a mesh <<<"${MESH_PORTS:-7946 7947 7948}"
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT
"$HIVEMIND" certs ca --out "$scratch/ca" >/dev/null
for i in 0 1 2; do
    home=$scratch/node-$i
    "$HIVEMIND" certs node --ca "$scratch/ca" --name "node-$i" --out "$home" >/dev/null
    HIVEMIND_SERVER__GRPC_PORT=0 HIVEMIND_SERVER__METRICS_PORT=0 HIVEMIND_SERVER__ADMIN_PORT=${admin[i]} \
        HIVEMIND_STORAGE__KIND=mesh HIVEMIND_MESH__BIND=127.0.0.1:${mesh[i]} \
        HIVEMIND_MESH__BOOTSTRAP_PEERS=127.0.0.1:${mesh[0]},127.0.0.1:${mesh[1]},127.0.0.1:${mesh[2]} \
        HIVEMIND_MESH__TLS__CA=$home/ca.crt HIVEMIND_MESH__TLS__CERT=$home/node.crt HIVEMIND_MESH__TLS__KEY=$home/node.key \
        "$HIVEMIND" serve --rules rules.yaml >"$home/log" 2>&1 &
done
until curl -sf --fail-early "http://127.0.0.1:{${admin[0]},${admin[1]},${admin[2]}}/readyz" >/dev/null; do
    [ "$(jobs -rp | wc -l)" -eq 3 ] || { cat "$scratch"/node-*/log >&2 && exit 1; }
    sleep 0.2
done
echo "ready: ${admin[*]}"
wait -n
