"""What `scripts/deploy-checks` asks of the files for a machine of one's own: systemd's, logrotate's, the kernel's."""

import os, re, shutil
from pathlib import Path

import yaml

# Of systemd-analyze security, in tenths: today's scores, so that they cannot get worse unseen. The second is with low-ports.conf.
EXPOSURE = (14, 17)
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
# What a machine has only with a firewall's module.
OF_MODULES = ("net.netfilter.",)


def seconds(duration):
    """Of a duration as configurations have it: `10s`."""
    number, unit = re.fullmatch(r"(\d+) *(ms|s|m|h|d)", duration).groups()
    return int(number) * UNITS[unit]


class Host:
    """The part of the checks that is about deploy/systemd, deploy/logrotate and deploy/sysctl."""

    def systemd(self):
        if not shutil.which("systemd-analyze"):
            return self.wanted("systemd's units, since there is no systemd-analyze here")
        folder = self.root / "deploy/systemd"
        text = (folder / "hivemind.service").read_text()
        # The program is wherever this one is built; that it is not in /usr/bin is no fault of the unit.
        unit = self.scratch / "hivemind.service"
        unit.write_text(text.replace("ExecStart=/usr/bin/hivemind", f"ExecStart={self.hivemind}"))
        sockets = [self.scratch / file.name for file in sorted(folder.glob("*.socket"))]
        for socket in sockets:
            shutil.copy(folder / socket.name, socket)
            names = re.findall(r"^FileDescriptorName=(.*)$", socket.read_text(), re.M)
            if len(names) != 1 or names[0] not in ("grpc", "grpc_uds", "admin", "admin_uds", "metrics", "gateway", "redirect"):
                self.wrong(socket.name, f"FileDescriptorName is one that hivemind knows: {names}")
        said = self.run("hivemind.service", "systemd-analyze", "verify", "--man=no", unit, *sockets)
        if not re.search(r"^Type=notify$", text, re.M):
            self.wrong("hivemind.service", "Type=notify is what it tells by itself when it serves")
        self.run("hivemind.service", "systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE[0]}", "--no-pager", unit)
        extra = self.scratch / "hivemind.service.d"
        extra.mkdir()
        shutil.copy(folder / "low-ports.conf", extra)
        said += self.run("low-ports.conf", "systemd-analyze", "verify", "--man=no", unit)
        # Offline, no folder of additions is read: together in one file they are scored.
        both = self.scratch / "both" / unit.name
        both.parent.mkdir()
        both.write_text(unit.read_text() + (folder / "low-ports.conf").read_text())
        self.run("low-ports.conf", "systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE[1]}", "--no-pager", both)
        if unit.name in said:
            self.wrong("hivemind.service", said.strip())
        stop = re.search(r"^TimeoutStopSec=(\d+)s$", text, re.M)
        if not stop or int(stop[1]) <= self.grace(yaml.safe_load((folder / "hivemind.yaml").read_text())):
            self.wrong("hivemind.service", "TimeoutStopSec ends before server.shutdown_grace does")
        self.counted("units", 2 + len(sockets))

    def logrotate(self):
        program = shutil.which("logrotate", path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not program:
            return self.wanted("logrotate's file, since there is no logrotate here")
        text = (self.root / "deploy/logrotate/hivemind").read_text()
        if "copytruncate" in re.sub(r"#.*", "", text):
            self.wrong("logrotate/hivemind", "copytruncate loses lines; a rename is followed")
        logs = self.scratch / "logs"
        logs.mkdir()
        (logs / "access.log").write_text("a line\n")
        file = self.scratch / "logrotate.conf"
        # There is no user hivemind here, so that files stay whose they are.
        file.write_text(re.sub(r"^ *su .*$", "", text, flags=re.M).replace("/var/log/hivemind", str(logs)))
        file.chmod(0o644)
        self.run("logrotate/hivemind", program, "--force", "--state", self.scratch / "state", file)
        if not (logs / "access.log.1").exists() or (logs / "access.log").exists():
            self.wrong("logrotate/hivemind", f"did not rename the log: {sorted(found.name for found in logs.iterdir())}")

    def sysctl(self):
        """Each line sets a key that this kernel has, to something that it could be, and the page tells of the same keys."""
        folder, kernel = self.root / "deploy/sysctl", Path("/proc/sys")
        lines = [line.strip() for line in (folder / "hivemind.conf").read_text().splitlines()]
        said = [re.fullmatch(r"([a-z0-9_.]+) = (\S.*)", line) for line in lines if line and not line.startswith("#")]
        if not said or None in said:
            return self.wrong("sysctl/hivemind.conf", f"a line is `key = value`: {lines}")
        keys = {line[1]: line[2].split() for line in said}
        page = (folder / "README.md").read_text()
        # A row of the table begins with its keys; with a dot, it is one of the kernel's.
        rows = {key: row[0] for row in re.finditer(r"^\| `.*$", page, re.M) for key in re.findall(r"`([a-z0-9_]+(?:\.[a-z0-9_]+)+)`", row[0].split("|")[1])}
        elsewhere = {key for key, row in rows.items() if "Not in the file" in row}
        if set(keys) != set(rows) - elsewhere:
            self.wrong("sysctl", f"the file sets {sorted(keys)}, and the page says that it sets {sorted(set(rows) - elsewhere)}")
        named = set(re.findall(r"`((?:net|fs|vm|kernel)\.[a-z0-9_.]+)`", page))
        for key in sorted(named | set(keys)):
            file = kernel / key.replace(".", "/")
            if not file.exists():
                if key.startswith(OF_MODULES) or not kernel.is_dir():
                    self.left_out.append(f"{key}, which this kernel does not show")
                else:
                    self.wrong("sysctl", f"{key} is no setting of this kernel")
                continue
            now = file.read_text().split()
            values = keys.get(key, now)
            if len(values) != len(now) or not all(value.isdigit() for value in values):
                self.wrong("sysctl/hivemind.conf", f"{key} is {len(now)} numbers here, as {now}, and the file says {values}")
        if "net.ipv4.ip_local_port_range" in keys:
            low, high = map(int, keys["net.ipv4.ip_local_port_range"])
            if not 1024 <= low < high <= 65535 or f"{high - low + 1:,} here" not in page:
                self.wrong("sysctl", f"{low} to {high} are {high - low + 1:,} ports, and the page says otherwise")
        self.counted("settings of the kernel", len(named | set(keys)))
