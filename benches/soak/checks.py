"""Invariants of a soak run, and the report. Each violation is a text in `soak.found`."""
import collections
import datetime
import os
import platform
import statistics
import subprocess

from environment import BURST, LIMIT, PERIOD, RATE
from growth import growth, judged, may

SETTLE = 5  # Seconds in which Envoy may detect a killed node.
# Maximum ratio of failed calls through Envoy between kill and restart; a third would fail if Envoy kept calling all three nodes.
FAILED = 0.2
# Minimum ratio of a limit that must pass in a window with refusals. While rules differ, as here every second, each hit of the shared limit needs a
# request to its owner (docs/benchmarks-soak.md).
LEAST_SHARED, LEAST_GATEWAY, LEAST_OTHERS = 0.25, 0.8, 0.8
# The same in a calm window, in which nodes have equal rules and hold shares, and Redis is up.
LEAST_CALM = 0.9
ENOUGH = 20  # Minimum number of calls in a window that is checked.
GREATEST = ("memory", "open files", "threads")


class Checks:
    def __init__(self, soak, clients):
        self.soak, self.clients, self.found = soak, clients, soak.found
        near = lambda at: any(kill - 3 <= at <= kill + soak.DOWN + SETTLE for kill in soak.kills)
        self.stated = {client: [each for each in client.failed if client.frontend == "Envoy" and near(each[0])] for client in clients}

    def run(self):
        soak = self.soak
        self.failures()
        self.kills()
        self.limits()
        self.admitted = sum(client.answers["passed"] for client in self.clients if "gateway" in client.frontend)
        self.most = BURST + RATE * soak.took + 1
        if self.admitted > self.most:
            self.found.append(f"the gateway: {self.admitted} passed, maximum {self.most:.0f}")
        self.loads()
        self.certificates()
        self.grpc()
        self.observers()
        self.attacks()
        self.flat()
        if not all(node.get("/readyz") for node in soak.nodes):
            self.found.append("not every node is ready at the end")

    def failures(self):
        """Only expected failures."""
        beyond = collections.defaultdict(list)
        for client in self.clients:
            beyond[client.frontend] += [each for each in client.failed if each not in self.stated[client]]
        for frontend, failed in beyond.items():
            if failed:
                at, why = min(failed)
                self.found.append(f"{frontend}: {len(failed)} unexpected call failures, the first {at - self.soak.begun:.1f} s after the start: {why}")

    def kills(self):
        """Calls through Envoy fail only until it detects the killed node."""
        self.shares, down = [], self.soak.DOWN
        for kill in self.soak.kills:
            called = sum(count for client in self.stated if client.frontend == "Envoy" for tenth, count in client.calls.items() if kill <= tenth / 10 < kill + down)
            failed = sum(kill - 3 <= at <= kill + down + SETTLE for each in self.stated.values() for at, _ in each)
            self.shares.append(failed / max(1, called))
            if failed > FAILED * called:
                self.found.append(f"Envoy: {failed} calls failed for the kill {kill - self.soak.begun:.0f} s after the start, of {called} until the restart, maximum {FAILED:.0%}")

    def loads(self):
        """Every load of rules succeeded, and the last rules are active."""
        soak = self.soak
        self.loaded = {node.name: tuple(node.metric(f"ratelimit_service_config_load_{how}") for how in ("success", "error")) for node in soak.lasting}
        for name, (good, bad) in self.loaded.items():
            if bad or good < soak.loads - 1 - soak.loads // 50:
                self.found.append(f"{name}: of {soak.loads} loads {good:.0f} succeeded and {bad:.0f} were rejected")
        for node in soak.nodes:
            if f"load_{soak.loads}:" not in (node.get("/rlconfig") or ""):
                self.found.append(f"{node.name}: the last rules are not active")

    def certificates(self):
        """The gateway served every new certificate, and the mesh used it, except possibly the last one."""
        soak = self.soak
        self.shown = len(soak.serials - soak.first)
        if self.shown < soak.rotations - 1:
            self.found.append(f"the gateway served {self.shown} of {soak.rotations} new certificates")
        # Each expires ten seconds after the previous one; 0 is a metric that could not be read.
        self.renewed = {name: len(ends - {0}) - 1 for name, ends in soak.expiries.items()}
        for name, number in self.renewed.items():
            if number < soak.rotations - 1:
                self.found.append(f"{name}: {number} of {soak.rotations} new certificates were active in the mesh")

    def grpc(self):
        grpc, name = self.soak.grpc, self.soak.nodes[1].name
        if grpc and (grpc["other"] or grpc["ok"] < LEAST_OTHERS * grpc["n"]):
            self.found.append(f"gRPC at {name}: of {grpc['n']} calls far from their limit {grpc['ok']} passed and {grpc['other']} failed")

    def observers(self):
        """Event streams, pages and probes never fail."""
        for each in self.soak.observers:
            if each.failed:
                why, number = each.failed.most_common(1)[0]
                self.found.append(f"{each.what}: {each.failed.total()} failures, {number} of them: {why}")
            if not each.count:
                self.found.append(f"{each.what}: none")

    def attacks(self):
        self.found += [f"{attack}: no attempts" for attack in self.soak.attacks if not attack.attempts]

    def flat(self):
        """Memory, open files and threads of each lasting node while rules changed, and their growth per minute."""
        self.usage, most = {}, may(self.soak.minutes)
        for name, samples in self.soak.samples.items():
            samples = [sample for sample in samples if sample[0] <= self.soak.busy]
            grown = growth(samples)
            self.usage[name] = [(statistics.median(sample[what + 1] for sample in judged(samples)), grown[what]) for what in range(3)]
            for what, by, maximum in zip(GREATEST, grown, most):
                if by > maximum:
                    self.found.append(f"{name}: {what} grew by {by:.2f}{' MB' * (what == 'memory')} per minute, maximum {maximum:.2f}")

    def limits(self):
        """Hits admitted in whole windows of the shared limits, and per frontend the lowest ratio that passed of users far from their limit."""
        passed, frontends, begun = collections.Counter(), collections.defaultdict(collections.Counter), self.soak.begun
        for client in self.clients:
            for (user, window, is_passed), count in client.windows.items():
                frontends[client.frontend, user, window][is_passed] += count
                passed[user, window] += count * is_passed
        first, last = min(window for *_, window in frontends), max(window for *_, window in frontends)
        self.least = {}
        for (frontend, user, window), counts in sorted(frontends.items()):
            at = f"in the window {(window * PERIOD - begun):.0f} s after the start"
            if not first < window < last or counts.total() < ENOUGH:
                continue
            if user == "others":
                self.least[frontend] = min(self.least.get(frontend, 1.0), counts[True] / counts.total())
                if counts[True] < LEAST_OTHERS * counts.total():
                    self.found.append(f"{frontend}: {counts[True]} of {counts.total()} calls far from their limit passed {at}")
            elif user == "gateway" and counts[False]:
                self.least[frontend] = min(self.least.get(frontend, 1.0), counts[True] / (RATE * PERIOD))
                if counts[True] < LEAST_GATEWAY * RATE * PERIOD:
                    self.found.append(f"{frontend}: {counts[True]} of {RATE * PERIOD} passed {at}")
        # Windows that began after the rules had been equal everywhere for a window.
        calm = {window for _, window in passed if window * PERIOD >= self.soak.calm + PERIOD and window < last}
        self.windows = {}
        for limit, user in (("shared limit", "hot"), ("limit in Redis", "redis")):
            hot = {window: count for (name, window), count in passed.items() if name == user}
            for window, count in hot.items():
                is_calm = window in calm
                # While Redis restarts, its counters are lost, and calls pass uncounted.
                greatest = LIMIT if is_calm or user == "hot" else float("inf")
                smallest = LEAST_CALM if is_calm else LEAST_SHARED if user == "hot" else 0
                if count > greatest or first < window < last and count < smallest * LIMIT:
                    self.found.append(f"the {limit}: {count} of {LIMIT} in the {'calm ' * is_calm}window {(window * PERIOD - begun):.0f} s after the start")
            for is_calm in (False, True):
                self.windows[limit, is_calm] = sorted(count for window, count in hot.items() if first < window < last and (window in calm) == is_calm)
            if not self.windows[limit, True]:
                self.found.append(f"the {limit}: no whole window in the calm quarter")

    # ---- report

    def report(self):
        soak = self.soak
        machine = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, Linux {platform.release()}"
        version = subprocess.run([soak.program, "--version"], capture_output=True, text=True).stdout.strip()
        lines = [f"{datetime.date.today()}, {machine}; load average at the end {os.getloadavg()[0]:.1f}; {version}; {soak.took:.0f} s.", "",
                 f"{soak.loads} loads of rules, {len(soak.kills)} kills of a node, {soak.restarts} of Redis, {soak.rotations} certificate rotations: the gateway served "
                 f"{self.shown} new ones, " + " and ".join(f"{name} used {number}" for name, number in self.renewed.items()) + " in the mesh.", "",
                 *self.calls(), "", *self.sums(), "", *self.use(), ""]
        return "\n".join([*lines, *([f"Found: {each}" for each in self.found[:20]] or ["All invariants hold."])]) + "\n"

    def calls(self):
        soak, lines = self.soak, ["| frontend | calls | passed | limited | failed | expected failures | slowest | lowest ratio in a window |", "|---|---|---|---|---|---|---|---|"]
        for frontend in dict.fromkeys(client.frontend for client in self.clients):
            clients = [client for client in self.clients if client.frontend == frontend]
            total = sum((client.answers for client in clients), collections.Counter())
            failed = sum(len(client.failed) for client in clients)
            lines.append(f"| {frontend} | {sum(total.values()) + failed} | {total['passed']} | {total['limited']} | {failed} | {sum(len(self.stated[client]) for client in clients)} "
                         f"| {max(client.slowest for client in clients) * 1e3:.0f} ms | {self.least.get(frontend, 0):.0%} |")
        if soak.grpc:
            grpc = soak.grpc
            lines.append(f"| gRPC at {soak.nodes[1].name} | {grpc['n']} | {grpc['ok']} | {grpc['over']} | {grpc['other']} | 0 | {grpc['max'] / 1e3:.0f} ms | - |")
        else:
            lines += ["", "No direct gRPC calls: build the client with cd benches/rls && cargo build --release --locked"]
        lines += ["", "| observer | number | failed | slowest |", "|---|---|---|---|"]
        for each in soak.observers:
            slowest = "-" if each.what == "events" else f"{each.slowest * 1e3:.0f} ms"
            lines.append(f"| {each.what} | {each.count} | {each.failed.total()} | {slowest} |")
        return [*lines, "", "| hostile clients | attempts |", "|---|---|", *(f"| {attack} | {attack.attempts} |" for attack in soak.attacks)]

    def sums(self):
        lines = []
        if self.shares:
            lines.append(f"Until a killed node restarted, {min(self.shares):.0%} to {max(self.shares):.0%} of the calls through Envoy failed; the maximum is {FAILED:.0%}.")
        for (limit, is_calm), ordered in self.windows.items():
            if ordered:
                lines.append(f"The {limit}, {LIMIT} per {PERIOD} s, {'in the calm quarter' if is_calm else 'before'}: of {len(ordered)} whole windows the maximum was "
                             f"{ordered[-1]}, the median {ordered[len(ordered) // 2]}, the minimum {ordered[0]} (calls across an edge are not counted).")
        return [*lines, f"The gateway: {self.admitted} passed, maximum {self.most:.0f}."]

    def use(self):
        memory, files, threads = may(self.soak.minutes)
        lines = [f"Growth per minute, maximum {memory:.2f} MB, {files:.1f} open files, {threads:.1f} threads:", "",
                 "| node | loads of rules | rejected | memory | growth | open files | growth | threads | growth |", "|---|---|---|---|---|---|---|---|---|"]
        for name, ((mb, more_mb), (files, more_files), (threads, more_threads)) in self.usage.items():
            good, bad = self.loaded[name]
            lines.append(f"| {name} | {good:.0f} | {bad:.0f} | {mb:.1f} MB | {more_mb:+.2f} MB | {files:.0f} | {more_files:+.1f} | {threads:.0f} | {more_threads:+.1f} |")
        return lines
