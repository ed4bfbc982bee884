"""Nodes of one mesh on loopback, each with an address of its own, a certificate and a configuration."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import time

from bench.process import Broken, Process

# No run reaches the first limit. Its windows are short, so that they begin in the view of all nodes: of a window that
# began before, a node that joined later has no share and asks. Of the second everything is with the owner, so that the first request of a
# second for a value asks, wherever it is not the owner that is asked. Of the last a counter stays for the day.
RULES = {"domain": "bench", "descriptors": [
    {"key": "hot", "rate_limit": {"unit": "second", "requests_per_unit": 4_000_000_000}},
    {"key": "few", "rate_limit": {"unit": "second", "requests_per_unit": 2}},
    {"key": "seen", "rate_limit": {"unit": "day", "requests_per_unit": 1_000_000, "consistency": "eventual"}},
    {"key": "kept", "rate_limit": {"unit": "day", "requests_per_unit": 1_000_000}}]}


class Fleet:
    """Started by `with`; all nodes end with it."""

    def __init__(self, run, name, count, mesh=True, limiting=None):
        self.program, self.folder, self.count, self.mesh = run.program, run.folder / name, count, mesh
        self.limiting = {"config_path": "rules.yaml"} | (limiting or {})
        self.stack = contextlib.ExitStack()
        self.nodes, self.pages = [], {}
        self.port = free_port()

    def __enter__(self):
        self.folder.mkdir(parents=True)
        certs = [str(self.program), "certs"]
        run(*certs, "ca", "--out", self.folder / "ca")
        begun = time.monotonic()
        with contextlib.ExitStack() as stack:
            stack.push(self.stack)
            for index in range(self.count):
                self.start(index)
            self.settled()
            stack.pop_all()
        self.took = time.monotonic() - begun
        return self

    def __exit__(self, *what):
        return self.stack.__exit__(*what)

    def address(self, index):
        # Every node has one of its own, so that one port does for all.
        return f"127.77.{index // 250}.{index % 250 + 1}:{self.port}"

    def start(self, index):
        """Starts a node and waits until it listens."""
        name = f"node-{index:02}"
        folder = self.folder / name
        run(self.program, "certs", "node", "--ca", self.folder / "ca", "--name", name, "--out", folder)
        settings = {"server": {"grpc_port": 0, "admin_port": 0, "metrics_port": 0, "shutdown_grace": "2s"},
                    "observability": {"log_level": "warn"}, "rate_limiting": self.limiting}
        if self.mesh:
            first = [self.address(peer) for peer in range(min(3, self.count))]
            settings |= {"storage": {"kind": "mesh"}, "mesh": {
                "node_id": name, "cluster_id": "bench", "bind": self.address(index), "bootstrap_peers": first,
                "tls": {"ca": "ca.crt", "cert": "node.crt", "key": "node.key"}}}
        # JSON is YAML.
        (folder / "rules.yaml").write_text(json.dumps(RULES))
        (folder / "hivemind.yaml").write_text(json.dumps(settings))
        env = {"PATH": os.environ.get("PATH", "")}
        node = self.stack.enter_context(
            Process(folder, name, [self.program, "serve", "--config", "hivemind.yaml"], env))
        screen = node.until("first screen", lambda: screen_of(node))
        node.addr = re.search(r"grpc://([\d.:]+)", screen)[1]
        node.admin = re.search(r"admin +http://([\d.:]+)", screen)[1]
        node.metrics_at = re.search(r"metrics +http://([\d.:]+)", screen)[1]
        self.nodes.append(node)
        return node

    def settled(self, seconds=60):
        """Waits until all nodes decide in one view of all of them."""
        if self.mesh:
            for node in self.nodes:
                node.until("view of all", lambda node=node: self.metric(node, "hivemind_mesh_members") == len(self.nodes),
                           seconds)

    def metrics(self, node):
        """All series of a node."""
        page = self.get(node.metrics_at, "GET", "/metrics")[1]
        lines = (line.rpartition(" ") for line in page.splitlines() if line and line[0] != "#")
        return {name: float(value) for name, _, value in lines}

    def metric(self, node, name):
        return self.metrics(node).get(name, 0)

    def sum(self, name):
        """Of a series over all nodes and all its labels."""
        return sum(value for node in self.nodes for series, value in self.metrics(node).items()
                   if series.partition("{")[0] == name)

    def cpu(self):
        return sum(node.cpu() for node in self.nodes)

    def ask(self, node, key, value, hits=1):
        """The JSON twin of the RPC."""
        descriptor = {"entries": [{"key": key, "value": value}], "hitsAddend": hits}
        body = json.dumps({"domain": "bench", "descriptors": [descriptor]})
        code, text = self.get(node.admin, "POST", "/json", body)
        if code not in (200, 429):
            raise Broken(f"{node.name}: {code} {text}")
        return json.loads(text)

    def get(self, address, method, path, body=None):
        """One request over a connection that stays open."""
        for last in (False, True):
            page = self.pages.get(address) or http.client.HTTPConnection(address, timeout=10)
            self.pages[address] = page
            try:
                page.request(method, path, body)
                answer = page.getresponse()
                return answer.status, answer.read().decode()
            except (OSError, http.client.HTTPException):
                # The node may have closed it meanwhile.
                page.close()
                del self.pages[address]
                if last:
                    raise


def screen_of(node):
    text = node.out.read_text(errors="replace")
    return text if "Stop it" in text else None


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise Broken(f"{' '.join(map(str, command[:3]))}: {done.stderr.strip()}")


def free_port():
    """One that is free for datagrams and for TCP at the first node's address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, socket.socket() as t:
        s.bind(("127.77.0.1", 0))
        t.bind(("127.77.0.1", s.getsockname()[1]))
        return s.getsockname()[1]
