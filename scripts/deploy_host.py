"""Host checks of `scripts/deploy-checks`: systemd units, logrotate and kernel settings."""

import os, re, shutil
from pathlib import Path

import yaml

# Current scores of systemd-analyze security, in tenths, as upper limits. The second is with low-ports.conf.
EXPOSURE = (14, 17)
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
# Settings that exist only if a firewall module is loaded.
OF_MODULES = ("net.netfilter.",)


def seconds(duration):
    """Seconds of a configuration duration such as `10s`."""
    number, unit = re.fullmatch(r"(\d+) *(ms|s|m|h|d)", duration).groups()
    return int(number) * UNITS[unit]


class Host:
    """Checks of deploy/systemd, deploy/logrotate and deploy/sysctl."""

    def systemd(self):
        if not shutil.which("systemd-analyze"):
            return self.wanted("systemd units: systemd-analyze not found")
        folder = self.root / "deploy/systemd"
        text = (folder / "hivemind.service").read_text()
        # The unit runs the built binary here, which is not in /usr/bin.
        unit = self.scratch / "hivemind.service"
        unit.write_text(text.replace("ExecStart=/usr/bin/hivemind", f"ExecStart={self.hivemind}"))
        sockets = [self.scratch / file.name for file in sorted(folder.glob("*.socket"))]
        for socket in sockets:
            shutil.copy(folder / socket.name, socket)
            names = re.findall(r"^FileDescriptorName=(.*)$", socket.read_text(), re.M)
            if len(names) != 1 or names[0] not in ("grpc", "grpc_uds", "admin", "admin_uds", "metrics", "gateway", "redirect"):
                self.wrong(socket.name, f"FileDescriptorName is not one that hivemind accepts: {names}")
        said = self.run("hivemind.service", "systemd-analyze", "verify", "--man=no", unit, *sockets)
        if not re.search(r"^Type=notify$", text, re.M):
            self.wrong("hivemind.service", "Type=notify is missing; hivemind reports readiness")
        self.run("hivemind.service", "systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE[0]}", "--no-pager", unit)
        extra = self.scratch / "hivemind.service.d"
        extra.mkdir()
        shutil.copy(folder / "low-ports.conf", extra)
        said += self.run("low-ports.conf", "systemd-analyze", "verify", "--man=no", unit)
        # Offline mode ignores drop-in directories, so unit and drop-in are joined in one file.
        both = self.scratch / "both" / unit.name
        both.parent.mkdir()
        both.write_text(unit.read_text() + (folder / "low-ports.conf").read_text())
        self.run("low-ports.conf", "systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE[1]}", "--no-pager", both)
        if unit.name in said:
            self.wrong("hivemind.service", said.strip())
        stop = re.search(r"^TimeoutStopSec=(\d+)s$", text, re.M)
        if not stop or int(stop[1]) <= self.grace(yaml.safe_load((folder / "hivemind.yaml").read_text())):
            self.wrong("hivemind.service", "TimeoutStopSec is shorter than server.shutdown_grace")
        self.counted("units", 2 + len(sockets))

    def logrotate(self):
        program = shutil.which("logrotate", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not program:
            return self.wanted("the logrotate file: logrotate not found")
        text = (self.root / "deploy/logrotate/hivemind").read_text()
        if "copytruncate" in re.sub(r"#.*", "", text):
            self.wrong("logrotate/hivemind", "copytruncate loses lines; hivemind reopens renamed files")
        logs = self.scratch / "logs"
        logs.mkdir()
        (logs / "access.log").write_text("a line\n")
        file = self.scratch / "logrotate.conf"
        # The user hivemind does not exist here, so file owners stay unchanged.
        file.write_text(re.sub(r"^ *su .*$", "", text, flags=re.M).replace("/var/log/hivemind", str(logs)))
        file.chmod(0o644)
        self.run("logrotate/hivemind", program, "--force", "--state", self.scratch / "state", file)
        if not (logs / "access.log.1").exists() or (logs / "access.log").exists():
            self.wrong("logrotate/hivemind", f"did not rename the log: {sorted(found.name for found in logs.iterdir())}")

    def sysctl(self):
        """Each line sets an existing kernel setting to a possible value, and the page documents the same keys."""
        folder, kernel = self.root / "deploy/sysctl", Path("/proc/sys")
        lines = [line.strip() for line in (folder / "hivemind.conf").read_text().splitlines()]
        said = [re.fullmatch(r"([a-z0-9_.]+) = (\S.*)", line) for line in lines if line and not line.startswith("#")]
        if not said or None in said:
            return self.wrong("sysctl/hivemind.conf", f"not all lines are `key = value`: {lines}")
        keys = {line[1]: line[2].split() for line in said}
        page = (folder / "README.md").read_text()
        # A table row begins with its keys; a key with a dot is a kernel setting.
        rows = {key: row[0] for row in re.finditer(r"^\| `.*$", page, re.M) for key in re.findall(r"`([a-z0-9_]+(?:\.[a-z0-9_]+)+)`", row[0].split("|")[1])}
        elsewhere = {key for key, row in rows.items() if "Not in the file" in row}
        if set(keys) != set(rows) - elsewhere:
            self.wrong("sysctl", f"the file sets {sorted(keys)}, and the page documents {sorted(set(rows) - elsewhere)}")
        named = set(re.findall(r"`((?:net|fs|vm|kernel)\.[a-z0-9_.]+)`", page))
        for key in sorted(named | set(keys)):
            file = kernel / key.replace(".", "/")
            if not file.exists():
                if key.startswith(OF_MODULES) or not kernel.is_dir():
                    self.left_out.append(f"{key}: not visible in this kernel")
                else:
                    self.wrong("sysctl", f"{key} is not a setting of this kernel")
                continue
            now = file.read_text().split()
            values = keys.get(key, now)
            if len(values) != len(now) or not all(value.isdigit() for value in values):
                self.wrong("sysctl/hivemind.conf", f"{key} has {len(now)} numbers in this kernel ({now}), and {values} in the file")
        if "net.ipv4.ip_local_port_range" in keys:
            low, high = map(int, keys["net.ipv4.ip_local_port_range"])
            if not 1024 <= low < high <= 65535 or f"{high - low + 1:,} here" not in page:
                self.wrong("sysctl", f"{low} to {high} are {high - low + 1:,} ports; the page has another number")
        self.counted("settings of the kernel", len(named | set(keys)))
