"""Nodes of a soak run, and the Redis that one of them uses."""
import contextlib
import http.client
import os
import signal
import socket
import time
import urllib.request

from bench.process import Process


class Node:
    """A node. After a kill it restarts as a new process with the same ports."""

    def __init__(self, soak, name, ports, storage, config):
        self.name, self.ports = name, ports
        self.home = soak.folder / name
        self.environment = {
            "HIVEMIND_SERVER__GRPC_PORT": ports[0], "HIVEMIND_SERVER__ADMIN_PORT": ports[1], "HIVEMIND_SERVER__METRICS_PORT": ports[2],
            "HIVEMIND_RATE_LIMITING__CONFIG_PATH": soak.folder / "rules", **storage,
        }
        self.command = [soak.program, "serve", "--config", config]
        self.start()

    def start(self):
        environment = {**os.environ, **{key: str(value) for key, value in self.environment.items()}}
        self.process = Process(self.home / f"run-{time.time_ns()}", self.name, self.command, env=environment)

    def kill(self):
        self.process.child.kill()
        self.process.child.wait(10)

    def reload(self):
        if self.process.child.poll() is None:
            self.process.child.send_signal(signal.SIGHUP)

    def ready(self):
        self.process.until("readiness", lambda: self.get("/readyz"), 120)

    def get(self, path, port=1):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=5) as answer:
                return answer.read().decode()
        except (OSError, http.client.HTTPException):
            return None

    def metric(self, name):
        lines = (self.get("/metrics", port=2) or "").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name) and line[len(name)] in " {")

    def open_files(self):
        """What each descriptor refers to."""
        folder, files = f"/proc/{self.process.pid}/fd", []
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # Closed meanwhile.
                files.append(os.readlink(f"{folder}/{name}"))
        return files

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))


def mesh(home, port, peers):
    """The settings of a node of the mesh."""
    return {
        "HIVEMIND_STORAGE__KIND": "mesh", "HIVEMIND_MESH__BIND": f"127.0.0.1:{port}", "HIVEMIND_MESH__BOOTSTRAP_PEERS": ",".join(peers),
        "HIVEMIND_MESH__TLS__CA": home / "ca.crt", "HIVEMIND_MESH__TLS__CERT": home / "node.crt", "HIVEMIND_MESH__TLS__KEY": home / "node.key",
    }


def redis(port):
    """The settings of a node that counts in Redis."""
    return {"HIVEMIND_STORAGE__KIND": "redis", "HIVEMIND_STORAGE__REDIS__URL": f"redis://127.0.0.1:{port}/0"}


class Redis:
    """A Redis without persistence: a restart removes all counters."""

    def __init__(self, folder, program, port):
        self.folder, self.port = folder, port
        self.command = [program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.start()

    def start(self):
        self.process = Process(self.folder / f"run-{time.time_ns()}", "Redis", self.command)

    def ready(self):
        self.process.until("port", lambda: reached(self.port), 20)

    def kill(self):
        self.process.child.kill()
        self.process.child.wait(10)


def reached(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
