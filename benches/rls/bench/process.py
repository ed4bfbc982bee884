"""Programs of a run: started, located by their output, and stopped by their process ids.

A run keeps them in an ExitStack, so they stop when a section fails or the run is interrupted."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
BUILT = HERE / "target" / "release"
TICK = os.sysconf("SC_CLK_TCK")


class Broken(Exception):
    """A failed prerequisite: ends the section, not the run."""


class Process:
    """A program with its own directory for output."""

    def __init__(self, folder, name, command, env=None, cores=None):
        self.name, self.folder = name, pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err = self.folder / "out.log", self.folder / "err.log"
        # Set the affinity before the start, because runtimes count cores once.
        pin = (lambda: os.sched_setaffinity(0, cores)) if cores else None
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out,
                                          stderr=err, env=env, cwd=self.folder, preexec_fn=pin)
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop(15)

    def stop(self, seconds):
        """Sends SIGTERM, and SIGKILL after a number of seconds, to this process only."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait(10)

    def until(self, what, ready, seconds=20):
        """Calls `ready` until it returns a value, the program exits or the deadline passes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.child.poll() is not None:
                raise Broken(f"{self.name} ended with {self.child.returncode}: {self.said()}")
            answer = ready()
            if answer:
                return answer
            time.sleep(0.02)
        raise Broken(f"{self.name}: no {what} after {seconds} s: {self.said()}")

    def said(self):
        return self.err.read_text(errors="replace").strip()[-400:] or "(it said nothing)"

    def cpu(self):
        """User and system CPU time of all threads in seconds."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def resident_mb(self):
        """Resident memory in MB (10^6 bytes): current and peak."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        return tuple(int(fields[name].split()[0]) * 1024 / 1e6 for name in ("VmRSS", "VmHWM"))


def free_port():
    """A free port, for programs that cannot report the port they bind."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(addr):
    host, port = addr.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 1).close()
        return True
    except OSError:
        return False


def reference(stack, folder, name):
    """One of ref_h2, ref_tonic (on one thread, as for the ratios) and upstream."""
    addr = f"127.0.0.1:{free_port()}"
    process = stack.enter_context(Process(folder / name, name, [BUILT / name, addr, "ct"]))
    process.addr = addr
    process.until("answer", lambda: answers(addr))
    return process


DAY = {"unit": "day", "requests_per_unit": 4_000_000_000}


def rules():
    """Rules as JSON, which is YAML. `hot` and `tenant` never reach their limit, `over` does after ten requests."""
    siblings = [{"key": "tenant", "value": f"tenant{i:03}", "rate_limit": DAY} for i in range(100)]
    return {"domain": "bench", "descriptors": [
        {"key": "hot", "rate_limit": DAY},
        {"key": "over", "rate_limit": {"unit": "day", "requests_per_unit": 10}},
        *siblings, {"key": "tenant", "rate_limit": DAY}]}


def hivemind(stack, folder, name, program, settings=None, before=(), cores=None, seconds=20):
    """`hivemind serve` on free ports with metrics; `settings` are configuration keys."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rules.yaml").write_text(json.dumps(rules(), indent=1))
    (folder / "hivemind.yaml").write_text(json.dumps({
        "server": {"grpc_port": 0, "admin_port": 0, "metrics_port": 0, "shutdown_grace": "2s"},
        "observability": {"log_level": "warn", "prometheus": {"enabled": True}}}))
    env = {"PATH": os.environ.get("PATH", "")}
    for key, value in (settings or {}).items():
        env["HIVEMIND_" + key.upper().replace(".", "__")] = str(value)
    command = [*before, program, "serve", "--config", "hivemind.yaml", "--rules", "rules.yaml"]
    process = stack.enter_context(Process(folder, name, command, env, cores))

    def screen():
        # It prints the banner after all ports are bound.
        text = process.out.read_text(errors="replace")
        if "Stop it" not in text:
            return None
        return text.partition("grpc://")[2].split()[0].strip("/")
    process.addr = process.until("first screen", screen, seconds)
    return process


def envoy_program():
    """The path of Envoy, found as in the tests of the server."""
    named = os.environ.get("HIVEMIND_ENVOY")
    for program in (named, ROOT / "target/tools/bin/envoy", shutil.which("envoy")):
        if program and pathlib.Path(program).is_file():
            return pathlib.Path(program).resolve()
    raise Broken("no Envoy: `./test` installs it, or set HIVEMIND_ENVOY")


def cluster(name, addr, protocol):
    host, port = addr.rsplit(":", 1)
    options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {"name": name, "type": "STATIC", "connect_timeout": "5s",
            "typed_extension_protocol_options": {options: {
                "@type": f"type.googleapis.com/{options}", "explicit_http_config": {protocol: {}}}},
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {
                "address": {"socket_address": {"address": host, "port_value": int(port)}}}}]}]}}


def envoy(stack, folder, name, upstream, limiter=None):
    """An Envoy with one worker in front of `upstream` that calls `limiter`, if given, for each request."""
    api = "type.googleapis.com/envoy.extensions.filters"
    filters = [{"name": "envoy.filters.http.router", "typed_config": {"@type": f"{api}.http.router.v3.Router"}}]
    route = {"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}
    clusters = [cluster("upstream", upstream, "http_protocol_options")]
    if limiter:
        route["route"]["rate_limits"] = [{"actions": [{"request_headers": {
            "header_name": "x-key", "descriptor_key": "tenant"}}]}]
        clusters.append(cluster("hivemind", limiter, "http2_protocol_options"))
        # A failed or late limiter must appear as an error, not as a fast pass.
        filters.insert(0, {"name": "envoy.filters.http.ratelimit", "typed_config": {
            "@type": f"{api}.http.ratelimit.v3.RateLimit", "domain": "bench", "timeout": "5s",
            "failure_mode_deny": True, "rate_limit_service": {
                "transport_api_version": "V3", "grpc_service": {"envoy_grpc": {"cluster_name": "hivemind"}}}}})
    manager = {"@type": f"{api}.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "ingress",
               "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
               "http_filters": filters}
    loopback = {"socket_address": {"address": "127.0.0.1", "port_value": 0}}
    bootstrap = {"admin": {"address": loopback}, "static_resources": {"clusters": clusters, "listeners": [{
        "name": "ingress", "address": loopback, "filter_chains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}]}]}}
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "envoy.json").write_text(json.dumps(bootstrap))
    process = stack.enter_context(Process(folder, name, [
        envoy_program(), "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error",
        "--admin-address-path", "admin.txt", "-c", "envoy.json"]))

    def listening():
        try:
            admin = (folder / "admin.txt").read_text().strip()
            urllib.request.urlopen(f"http://{admin}/ready", timeout=2).close()
            with urllib.request.urlopen(f"http://{admin}/listeners?format=json", timeout=2) as page:
                at = json.load(page)["listener_statuses"][0]["local_address"]["socket_address"]
            return f"{at['address']}:{at['port_value']}"
        except (OSError, LookupError, ValueError):
            return None
    process.addr = process.until("listener", listening)
    return process
