"""What `scripts/deploy-checks` asks of the files for a machine of one's own: systemd's, logrotate's."""

import os, re, shutil

import yaml

# Of systemd-analyze security, in tenths: today's scores, so that they cannot get worse unseen. The second is with low-ports.conf.
EXPOSURE = (14, 17)
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration):
    """Of a duration as configurations have it: `10s`."""
    number, unit = re.fullmatch(r"(\d+) *(ms|s|m|h|d)", duration).groups()
    return int(number) * UNITS[unit]


class Host:
    """The part of the checks that is about deploy/systemd and deploy/logrotate."""

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
