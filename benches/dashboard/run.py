#!/usr/bin/env python3
"""Benchmark of the dashboard: page load, CPU of the node that serves it, and latency of its callers.

    ./run.py                      everything, about 10 minutes; prints Markdown tables
    ./run.py --quick              fewer and shorter rounds, about 3 minutes
    ./run.py --only paint,cpu     some sections
    ./run.py --server PATH        another binary

It starts eleven nodes of `hivemind serve` as a mesh on loopback (by default target/release/hivemind of this repository:
build it first with `cargo build --release --locked`), sends calls for 100,000 keys to the first, and opens its
dashboard in a headless Chromium. Processes are stopped by their ids.

Sections:
  paint   time from the navigation to the first paint and to the first numbers, and the downloaded size; always in a new page,
          alternating with a page of one word as the baseline of the browser
  cpu     CPU of the node when idle and while clients are refused: alone, with one page open, with one page of recent
          decisions, and with one page of a refused key
  calls   p99 of the RPC, open loop, in many short turns: alone, alone again (the variation between equal runs), with a
          reader of the event stream, with a client that sends all requests of a page, with repeated what-if requests, and
          with a page open in a Chromium on the same cores

CPU is user + system of /proc/PID/stat. Only numbers of one run are comparable: clients, nodes and browser share the cores.
Exit status: 0 if all targets are met, 1 if one is missed, 2 on errors."""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
RLS = HERE.parent / "rls"
sys.path[:0] = [str(HERE), str(HERE.parent / "mesh-net"), str(RLS)]
from bench.process import Broken  # noqa: E402  (the paths have to come first)
from bench.report import Report  # noqa: E402
from bench_mesh.fleet import RULES, Fleet  # noqa: E402
from bench_mesh.loads import loads  # noqa: E402
from chromium import Chromium  # noqa: E402

ROOT = HERE.parent.parent
PEERS, KEYS, RATE = 10, 100_000, 500
# Clients that are refused in the meantime.
REFUSED = 20
PAINT_MS, CORE_SHARE, P99_RATIO = 200, 0.01, 1.1
# Seconds of one measurement of calls.
TURN = 4

PAINTED = """new Promise(done => { const look = () => {
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    const figure = [...document.querySelectorAll('.tile dd')].some(one => /[0-9]/.test(one.textContent));
    if (!paint || !figure) return requestAnimationFrame(look);
    const fetched = performance.getEntriesByType('resource').concat(performance.getEntriesByType('navigation'));
    done({paint: paint.startTime, data: performance.now(),
          files: fetched.length, bytes: fetched.reduce((sum, one) => sum + one.encodedBodySize, 0)}); }; look(); })"""

# A page that needs nothing but itself.
WORD = "data:text/html,<p>word"
WORD_PAINTED = """new Promise(done => { const look = () => {
    const paint = performance.getEntriesByName('first-contentful-paint')[0];
    if (paint) done(paint.startTime); else requestAnimationFrame(look); }; look(); })"""


def paint(run):
    found = []
    for _ in range(run.pages):
        page = run.browser.page(WORD)
        floor = page.value(WORD_PAINTED)
        page.close()
        page = run.browser.page(f"http://{run.node.admin}/")
        found.append(page.value(PAINTED) | {"floor": floor})
        page.close()
    rows = [(name, *(f"{pick([one[field] for one in found]):.0f}" for pick in (min, statistics.median, max)))
            for name, field in (("first paint, ms", "paint"), ("first paint of one word, ms", "floor"),
                                ("first data, ms", "data"), ("requests", "files"), ("bytes", "bytes"))]
    run.report.table("Opening the page", ("what", "least", "median", "most"), rows,
                     f"{run.pages} new pages without a cache, {KEYS:,} keys in memory, {PEERS} peers.")
    middle = statistics.median(one["paint"] for one in found)
    run.report.target("hivemind", "first paint on loopback", f"< {PAINT_MS} ms", f"{middle:.0f} ms", middle < PAINT_MS)


def share(run):
    """The share of a core that the node uses."""
    before, begun = run.node.cpu(), time.monotonic()
    time.sleep(run.seconds)
    return (run.node.cpu() - before) / (time.monotonic() - begun)


@contextlib.contextmanager
def refused(run):
    """Runs clients over their limit, which the page shows."""
    command = [str(RLS / "target" / "release" / "load"), "grpc", "--addr", run.node.addr, "--rate", str(RATE), "--n", "1000000000",
               "--seconds", "3600", "--key", "few", "--keys", str(REFUSED)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as load:
        try:
            # Until the page shows the first of them.
            time.sleep(3)
            yield
            if load.poll() is not None:
                raise Broken(f"the refused clients exited early with status {load.returncode}")
        finally:
            load.terminate()


@contextlib.contextmanager
def opened(run, view="overview"):
    page = run.browser.page(f"http://{run.node.admin}/")
    page.value(PAINTED)
    page.value(f"location.hash = '#/{view}'")
    yield page
    page.close()


@contextlib.contextmanager
def shown(run):
    """Opens a page with the details of a refused key."""
    with opened(run, "keys") as page:
        page.value("""new Promise(done => { const look = () => {
            const key = document.querySelector('button.as-link');
            if (!key) return requestAnimationFrame(look);
            key.click(); done(true); }; look(); })""")
        yield page


@contextlib.contextmanager
def repeated(command):
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield
            if process.poll() is not None:
                raise Broken(f"{command[0]} exited early with status {process.returncode}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)


def listened(run):
    """Reads the event stream of a page and discards it."""
    return repeated(["curl", "-sN", f"http://{run.node.admin}/api/v1/events"])


@contextlib.contextmanager
def asked(run):
    """Reads the event stream and sends all requests of a page at its rate: lookup and explanation of a key, recent decisions, blocks. No
    browser renders on these cores."""
    subject = {"domain": "bench", "entries": [{"key": "few", "value": "k1"}]}
    questions = ((1, "POST", "keys/lookup", subject), (1, "POST", "explain", subject), (2, "GET", "decisions", None), (5, "GET", "blocks", None))
    over, wrong = threading.Event(), []

    def ask():
        page, second = http.client.HTTPConnection(run.node.admin, timeout=10), 0
        while not over.wait(1):
            second += 1
            for every, method, path, body in questions:
                if second % every == 0:
                    page.request(method, f"/api/v1/{path}", body and json.dumps(body), {"content-type": "application/json"})
                    answer = page.getresponse()
                    answer.read()
                    if answer.status != 200:
                        wrong.append(f"{method} {path}: {answer.status}")

    asking = threading.Thread(target=ask, daemon=True)
    with listened(run):
        asking.start()
        yield
        if not asking.is_alive() or wrong:
            raise Broken(f"the client with the requests of a page failed: {wrong[:3]}")
        over.set()
        asking.join()


def simulated(run):
    """Sends what-if requests of the recent decisions in sequence, a second apart."""
    (run.folder / "what-if.json").write_text(json.dumps({"rules": [{"name": "rules.yaml", "text": json.dumps(RULES)}],
                                                           "source": {"recent": True}}))
    ask = f"curl -sf -o /dev/null --data @{run.folder}/what-if.json http://{run.node.admin}/api/v1/simulate"
    return repeated(["sh", "-c", f"while {ask}; do sleep 1; done"])


def cpu(run):
    turns = {"alone": contextlib.nullcontext, "one page open": lambda: opened(run),
             "one page that reads decisions": lambda: opened(run, "decisions"), "one page that shows a key": lambda: shown(run)}
    for name, during, turns in (("at rest", contextlib.nullcontext, list(turns.items())[:3]),
                                (f"with {REFUSED} clients refused", lambda: refused(run), list(turns.items()))):
        found = {turn: [] for turn, _ in turns}
        with during():
            for _ in range(run.rounds):
                for turn, open_one in turns:
                    with open_one():
                        found[turn].append(share(run))
        differences = {turn: [each - alone for each, alone in zip(shares, found["alone"])] for turn, shares in found.items()}
        more = {turn: statistics.median(each) for turn, each in differences.items()}
        # The spread: half of the turns are between these.
        between = {turn: statistics.quantiles(each, n=4)[::2] for turn, each in differences.items()}
        run.report.table(f"The node {name}", ("", "of a core", "more than alone", "half of the turns"),
                         [(turn, f"{100 * statistics.median(shares):.2f} %", f"{100 * more[turn]:.2f} %",
                           " to ".join(f"{100 * one:.2f}" for one in between[turn])) for turn, shares in found.items()],
                         f"{run.rounds} turns of {run.seconds} s each, in ticks of {100 / (run.seconds * os.sysconf('SC_CLK_TCK')):.2f} %; "
                         f"the mesh of {PEERS + 1} nodes runs as well. More is the median of the differences.")
        for turn in list(found)[1:]:
            run.report.target("hivemind", f"{turn}, {name}", f"< {CORE_SHARE:.0%} of a core", f"{100 * more[turn]:.2f} %",
                              more[turn] < CORE_SHARE)


def calls(run):
    turns = {"alone": contextlib.nullcontext, "alone again": contextlib.nullcontext, "events read": lambda: listened(run),
             "all requests of a page": lambda: asked(run), "what-if": lambda: simulated(run), "page open": lambda: opened(run)}
    found = {name: [] for name in turns}
    order = list(turns.items())
    for number in range(run.turns):
        # Rotate the order, so that no case always comes first.
        for name, during in order[number % len(order):] + order[:number % len(order)]:
            with during():
                found[name].append(loads([run.node], rate=RATE, n=RATE * TURN, seconds=TURN, key="hot", keys=KEYS)[0])
    middle = {name: {field: statistics.median(one[field] for one in all_of) / 1e3 for field in ("p50", "p95", "p99")}
              for name, all_of in found.items()}
    spread = {name: quartiles([one["p99"] / 1e3 for one in all_of]) for name, all_of in found.items()}
    run.report.table("Calls meanwhile", ("", "p50 ms", "p95 ms", "p99 ms", "p99, quartiles of the turns"),
                     [(name, *(f"{value:.3f}" for value in fields.values()), f"{spread[name][0]:.2f} to {spread[name][1]:.2f}")
                      for name, fields in middle.items()],
                     f"{RATE:,} requests/s, open loop, medians of {run.turns} turns of {TURN} s each. An open page is also a Chromium "
                     "that draws on these cores.")
    ratio = {name: each["p99"] / middle["alone"]["p99"] for name, each in middle.items()}
    for name, what in (("events read", "events are read"), ("all requests of a page", "all requests of a page are sent")):
        run.report.target("hivemind", f"p99 of the RPC while {what}, of that alone", f"<= {P99_RATIO}", f"{ratio[name]:.2f}",
                          ratio[name] <= P99_RATIO)
    for name in ("alone again", "what-if", "page open"):
        run.report.target("for comparison", f"the same, {name}", "-", f"{ratio[name]:.2f}", True)


def quartiles(values):
    first, _, third = statistics.quantiles(values, n=4)
    return first, third


SECTIONS = {"paint": paint, "cpu": cpu, "calls": calls}


class Run:
    """Settings of the sections: durations, number of rounds, and the report."""

    def __init__(self, options, folder):
        self.folder, self.program = pathlib.Path(folder), options.server
        self.report = Report("The dashboard")
        self.pages = 5 if options.quick else 15
        # Many short turns, because the load of a node drifts by more than the cost of a page.
        self.seconds = 6 if options.quick else 10
        self.rounds = 4 if options.quick else 8
        self.turns = 8 if options.quick else 24


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(SECTIONS), help="sections, with commas")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target" / "release" / "hivemind")
    parser.add_argument("--out", type=pathlib.Path, help="write the tables to this file, too")
    parser.add_argument("--no-build", action="store_true", help="use the load client as it is")
    options = parser.parse_args()
    if not os.access(options.server, os.X_OK):
        parser.error(f"{options.server} not found; run cargo build --release --locked or pass --server PATH")
    unknown = [name for name in options.only if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown section {unknown[0]}; known: {', '.join(SECTIONS)}")
    options.server = options.server.resolve()
    return options


def main():
    options = arguments()
    # Stops all processes if the run is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--locked", "--quiet"], cwd=RLS, check=True)
    with tempfile.TemporaryDirectory(prefix="dashboard-bench-") as folder, contextlib.ExitStack() as stack:
        run = Run(options, folder)
        fleet = stack.enter_context(Fleet(run, "nodes", PEERS + 1))
        run.node = fleet.nodes[0]
        run.browser = stack.enter_context(Chromium(pathlib.Path(folder) / "profile"))
        # The window of a key is a day, so keys stay in memory.
        loads([run.node], rate=20_000, n=KEYS * 3, seconds=60, key="seen", keys=KEYS)
        kept = json.loads(fleet.get(run.node.admin, "GET", "/api/v1/stats")[1])["keys_in_memory"]
        print(f"{kept:,} keys in memory", file=sys.stderr, flush=True)
        if kept < KEYS:
            raise SystemExit(f"the node has {kept:,} keys, expected {KEYS:,}")
        for name in options.only:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                SECTIONS[name](run)
            except (Broken, OSError, subprocess.SubprocessError) as why:
                print(f"{name}: {why}", file=sys.stderr, flush=True)
                run.report.broken(name, str(why).replace("\n", " "))
    text = run.report.markdown({"hivemind": options.server})
    print(text)
    if options.out:
        options.out.write_text(text)
    sys.exit(2 if run.report.failed else 1 if run.report.missed() else 0)


if __name__ == "__main__":
    main()
