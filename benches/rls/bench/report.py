"""The report of a run as Markdown."""
import datetime
import os
import pathlib
import platform
import re
import subprocess

from .process import HERE, ROOT, Broken, envoy_program


class Report:
    """Targets with their results, then a table per section."""

    def __init__(self, title):
        self.title, self.targets, self.parts = title, [], []
        self.failed = []
        self.begun = datetime.datetime.now(datetime.timezone.utc)
        self.load = os.getloadavg()

    def target(self, server, what, bound, value, holds):
        self.targets.append((server, what, bound, value, "PASS" if holds else "FAIL"))

    def table(self, title, columns, rows, note=""):
        self.parts.append(f"### {title}\n\n" + table(columns, rows) + (f"\n\n{note}" if note else ""))

    def broken(self, section, why):
        self.failed.append(section)
        self.parts.append(f"### {section}\n\nNot measured: {why}")

    def missed(self):
        return [row for row in self.targets if row[-1] == "FAIL"]

    def markdown(self, servers):
        minutes = (datetime.datetime.now(datetime.timezone.utc) - self.begun).total_seconds() / 60
        now = os.getloadavg()
        head = [f"Measured {self.begun:%Y-%m-%d %H:%M} UTC in {minutes:.1f} minutes on {machine()}; load average "
                f"{self.load[0]:.1f} at the start, {now[0]:.1f} at the end. The load client shares these cores. "
                f"Compare within one run only.", "", *versions(servers)]
        targets = table(("server", "what", "bound", "measured", ""), self.targets) if self.targets else "None measured."
        return "\n".join([f"## {self.title}", "", *head, "", "### Targets", "", targets, "",
                          "\n\n".join(self.parts), ""])


def table(columns, rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(columns), *lines[1:]])


def said(*command):
    """The first line of the output of a program, or an empty string."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=ROOT)
        return (done.stdout.strip().splitlines() or [""])[0] if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", info)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{len(os.sched_getaffinity(0))} cores of {model[1] if model else platform.machine()}, {memory:.0f} GiB, "
            f"Linux {platform.release()}")


def versions(servers):
    lock = (HERE / "Cargo.lock").read_text()
    found = dict(re.findall(r'name = "(\S+)"\nversion = "(\S+)"', lock))
    crates = [f"{name} {found[name]}" for name in ("h2", "tonic", "tokio")]
    try:
        # Output: program, "version:", then commit/version/state/kind/library.
        envoy = "Envoy " + (said(str(envoy_program()), "--version").partition("version: ")[2].split("/") + ["", ""])[1]
    except Broken:
        envoy = "no Envoy"
    commit = said("git", "describe", "--always", "--dirty")
    lines = [f"- {name}: {said(str(program), '--version') or 'hivemind'}, {program.stat().st_size / 1e6:.1f} MB"
             for name, program in servers.items()]
    return [*lines, f"- harness at {commit or 'no commit'}, {said('rustc', '--version')}, floors on "
            + ", ".join(crates) + f"; {envoy}"]
