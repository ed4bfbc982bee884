"""Compose checks of `scripts/deploy-checks`: runs the services of each compose file as processes and tries what its README describes.

Each service gets its own address below 127.0.0.0/8 that replaces the host names in its files, so ports stay unchanged. Volumes are copies.
Only timeouts are longer, because on a stalled machine a call would time out and the request would pass.
"""

import http.client, os, random, re, shutil, signal, socket, subprocess, sys, time

import yaml

DEADLINE = 60  # Seconds to become healthy, and to join the mesh.
PATIENCE = {"HIVEMIND_STORAGE__REDIS__TIMEOUT_MS": "5000", "HIVEMIND_MESH__ASK_TIMEOUT_MS": "5000"}
ASK = '{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ada"}]}]}'


class Composed:
    """A running compose file; its processes stop at the end of the block."""

    def __init__(self, folder, scratch, programs):
        self.folder, self.scratch, self.programs, self.running = folder, scratch / f"composed-{folder.name}", programs, []
        self.plan = yaml.safe_load((folder / "compose.yaml").read_text())
        net = f"127.{random.randint(64, 250)}.{random.randint(1, 250)}"
        self.addresses = {name: f"{net}.{number}" for number, name in enumerate(self.plan["services"], 1)}

    def replaced(self, name, text):
        """Replaces host names by addresses, and the wildcard address by that of the service."""
        for other, address in self.addresses.items():
            text = re.sub(rf"(?<=[/ \[]){re.escape(other)}(?=:\d|, port_value)", address, text)
        text = text.replace("0.0.0.0", self.addresses[name]).replace("/etc/", f"{self.scratch / name}/etc/")
        return re.sub(r"\btimeout: 0\.\d+s", "timeout: 5s", text)

    def __enter__(self):
        try:
            if (self.folder / "certs.sh").exists():
                # The script writes into its own directory.
                shutil.copytree(self.folder, self.scratch / "folder")
                self.folder = self.scratch / "folder"
                subprocess.run([self.folder / "certs.sh"], env={**os.environ, "HIVEMIND": str(self.programs["hivemind"])}, check=True, capture_output=True)
            for name, service in sorted(self.plan["services"].items(), key=lambda each: len(each[1].get("depends_on", []))):
                self.start(name, service)
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, name, service):
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            for file in (file for file in [self.folder / source, *(self.folder / source).rglob("*")] if file.is_file()):
                to = self.scratch / name / target.lstrip("/") / file.relative_to(self.folder / source)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, to)
                if file.suffix == ".yaml":
                    to.write_text(self.replaced(name, file.read_text()))
        words, home = [self.replaced(name, word) for word in service["command"]], self.scratch / name
        home.mkdir(parents=True, exist_ok=True)
        address, image = self.addresses[name], service["image"]
        if "hivemind" in image:
            words = [self.programs["hivemind"], *words]
        elif "envoy" in image:
            words = [self.programs["envoy"], *words[1:], "--use-dynamic-base-id", "--concurrency", "1"]
        elif "redis" in image:
            words = [self.programs["redis-server"], *words[1:], "--bind", address]
        else:
            words = [sys.executable, *words[1:words.index("--directory")], "--bind", address, "--directory", str(home)]
        more = {"HIVEMIND_SERVER__HOST": address, **({"HIVEMIND_MESH__BIND": f"{address}:7946"} if "node.key" in str(list(home.rglob("*"))) else {})}
        with open(home / "log", "wb") as log:
            process = subprocess.Popen(list(map(str, words)), env={**os.environ, **PATIENCE, **more}, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.running.append((name, process))
        if "hivemind" in image:
            _, _, *asked = (self.replaced(name, word) for word in service["healthcheck"]["test"])
            self.until(f"{name} is healthy", lambda: subprocess.run([self.programs["hivemind"], *asked], capture_output=True).returncode == 0)
        elif service.get("ports") or "python" in image:
            port = 10000 if "envoy" in image else 8000
            # No request here, because it would be counted.
            self.until(f"{name} listens", lambda: reached(address, port))

    def until(self, what, holds):
        end = time.monotonic() + DEADLINE
        while not holds():
            ended = [name for name, process in self.running if process.poll() is not None]
            if ended or time.monotonic() > end:
                logs = "".join((self.scratch / name / "log").read_text()[-600:] for name in ended)
                raise AssertionError(f"timeout: {what}. Exited: {ended} {logs}")
            time.sleep(0.1)

    def asked(self, name, port, path, body=None):
        """Returns the status, always from the same client address; None if the connection fails."""
        connection = http.client.HTTPConnection(self.addresses[name], port, timeout=10, source_address=("127.0.0.1", 0))
        try:
            connection.request("POST" if body is not None else "GET", path, body)
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def __exit__(self, *_):
        for _, process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for _, process in self.running:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def reached(address, port):
    try:
        socket.create_connection((address, port), timeout=1).close()
        return True
    except OSError:
        return False


def within_a_minute():
    """Waits for the next minute if the current one ends soon, so that all calls are in one window."""
    if time.time() % 60 > 45:
        time.sleep(60 - time.time() % 60)


def gateway(composed):
    front = composed.asked("gateway", 10080, "/")
    assert front == 200, f"status {front} through the gateway"
    found = [composed.asked("gateway", 10080, "/login", "") for _ in range(7)]
    assert 429 not in found[:5] and found[5:] == [429, 429], f"expected five of seven logins to pass: {found}"


def envoy(composed):
    begun, found = time.monotonic(), [composed.asked("envoy", 10000, "/") for _ in range(60)]
    most = 21 + 10 * (time.monotonic() - begun)
    assert set(found) == {200, 429} and 20 <= found.count(200) <= most, f"{found.count(200)} of 60 passed, expected 20 to {most:.0f}: {set(found)}"


def mesh(composed):
    composed.until("all are ready", lambda: all(composed.asked(f"node-{number}", 8080, "/readyz") == 200 for number in (1, 2, 3)))
    within_a_minute()
    found = [composed.asked(f"envoy-{number}", 10000, "/") for number in (1, 2, 3, 1, 2, 3)]
    assert sorted(found) == [200] * 5 + [429], f"expected five of six requests at three Envoys to pass: {found}"


def redis(composed):
    within_a_minute()
    found = [composed.asked(f"node-{number}", 8080, "/json", ASK) for _ in range(6) for number in (1, 2)]
    assert found == [200] * 10 + [429] * 2, f"expected ten of twelve calls at two nodes to pass: {found}"


TRIED = {"gateway": gateway, "envoy": envoy, "mesh": mesh, "redis": redis}


class Compose:
    """Runs deploy/compose."""

    def processes(self):
        programs = {"hivemind": self.hivemind, "envoy": self.envoy, "redis-server": shutil.which("redis-server")}
        folders = sorted(file.parent for file in (self.root / "deploy/compose").glob("*/compose.yaml"))
        for folder in folders:
            missing = [name for name, program in programs.items() if not program and name.split("-")[0] in (folder / "compose.yaml").read_text()]
            if missing:
                self.wanted(f"deploy/compose/{folder.name} as processes: {missing[0]} not found")
                continue
            try:
                with Composed(folder, self.scratch, programs) as composed:
                    TRIED[folder.name](composed)
                self.counted("compose files as processes")
            except (AssertionError, subprocess.CalledProcessError) as error:
                self.wrong(f"deploy/compose/{folder.name}", f"as processes: {error}")
