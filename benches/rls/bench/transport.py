"""Cost of a call compared with its transport: CPU and latency against both baselines, one core and two, instructions."""
import contextlib
import re
import shutil
import sys

from .measure import load, measured, median, ratio, rounds, spread
from .process import BUILT, Broken, Process, answers, free_port, hivemind, reference

# Title, expected response, and options of the load client.
SCENARIOS = {
    "hot": ("one hot key, 4 x 32", "ok", {"key": "hot"}),
    "keys": ("100,000 keys under 100 siblings and a default, 4 x 32", "ok", {"key": "tenant", "keys": 100_000}),
    "over": ("over its limit, 4 x 32", "over", {"key": "over"}),
    "changing": ("one hot key, a header that changes with each call, 4 x 32", "ok", {"key": "hot", "changing": "yes"}),
    "single": ("one hot key, 1 x 1", "ok", {"key": "hot", "conns": 1, "streams": 1}),
}
RATIO = 1.5
# Chosen: on a busy machine two runs of one binary differed by more (docs/benchmarks-rls.md).
TOLERANCE = 0.1


def floors(run, chosen):
    """Runs the chosen scenarios against all servers and both baselines, alternating in one run."""
    with contextlib.ExitStack() as stack:
        contenders = {name: hivemind(stack, run.folder / "floors" / name, name, program, run.settings)
                      for name, program in run.servers.items()}
        for name in ("ref_h2", "ref_tonic"):
            contenders[name] = reference(stack, run.folder / "floors", name)

        def turn(scenario, name):
            _, expect, options = SCENARIOS[scenario]
            n = run.n // 4 if scenario == "single" else run.n
            expect = expect if name in run.servers else "any"
            return lambda: measured(contenders[name], expect=expect, n=n, **options)
        samples = rounds(run.rounds, {(s, c): turn(s, c) for s in chosen for c in contenders})
    rows, ratios = [], {}
    for scenario in chosen:
        base = samples[scenario, "ref_h2"]
        for name in contenders:
            own = samples[scenario, name]
            middle, least, most = ratios[scenario, name] = ratio(own, base)
            rows.append((SCENARIOS[scenario][0], name, spread(s["cpu_us"] for s in own), f"{median(own, 'rps'):,.0f}",
                         f"{median(own, 'p50'):.0f}", f"{median(own, 'p99'):.0f}",
                         f"{middle:.2f} [{least:.2f}..{most:.2f}]"))
    run.report.table("Compared with the baselines", ("what", "server", "CPU µs/request", "requests/s", "p50 µs", "p99 µs",
                                           "CPU / ref_h2"), rows,
                     f"Median [least..most] of {run.rounds} rounds of {run.n:,} calls (1 x 1: a quarter). Closed loop: "
                     "latency is mostly the queue of the client.")
    for name in run.servers:
        verdicts(run, name, chosen, samples, ratios)


def verdicts(run, name, chosen, samples, ratios):
    for scenario in (name for name in ("hot", "keys") if name in chosen):
        middle = ratios[scenario, name][0]
        run.report.target(name, f"{SCENARIOS[scenario][0]}: CPU / ref_h2", f"<= {RATIO} (aim 1.2)", f"{middle:.2f}",
                          middle <= RATIO)
    if {"hot", "over"} <= set(chosen):
        dearer = ratios["over", name][0] / ratios["hot", name][0]
        run.report.target(name, "over its limit: CPU / that of one hot key", f"<= 1 (± {TOLERANCE})", f"{dearer:.2f}",
                          dearer <= 1 + TOLERANCE)
    if "hot" in chosen:
        slower = ratio(samples["hot", name], samples["hot", "ref_h2"], "p99")[0]
        run.report.target(name, "one hot key, 4 x 32: p99 / ref_h2's", "<= 1.5", f"{slower:.2f}", slower <= 1.5)


def with_workers(stack, run, name, program, workers):
    """Starts a server with a number of cores: with its setting, or with CPU affinity if it has none."""
    folder = run.folder / "cores" / f"{name}-{workers}"
    try:
        settings = {**run.settings, "server.workers": workers}
        return hivemind(stack, folder, name, program, settings), "server.workers"
    except Broken as refused:
        if "workers" not in str(refused):
            raise
        cores = set(sorted(run.cores)[:workers])
        return hivemind(stack, folder, name, program, run.settings, cores=cores), "affinity"


def cores(run):
    """CPU per call with one worker and with two."""
    if len(run.cores) < 2:
        raise Broken("the machine has one core")
    rows = []
    with contextlib.ExitStack() as stack:
        turns, means = {}, {}
        for name, program in run.servers.items():
            for workers in (1, 2):
                server, means[name] = with_workers(stack, run, name, program, workers)
                turns[name, workers] = lambda server=server: measured(server, n=run.n, key="hot")
        samples = rounds(run.rounds, turns)
    for name in run.servers:
        one, two = samples[name, 1], samples[name, 2]
        middle, least, most = ratio(two, one)
        rows.append((name, means[name], spread(s["cpu_us"] for s in one), spread(s["cpu_us"] for s in two),
                     f"{middle:.2f} [{least:.2f}..{most:.2f}]"))
        run.report.target(name, "two cores: CPU / that on one", f"<= 1 (± {TOLERANCE})", f"{middle:.2f}",
                          middle <= 1 + TOLERANCE)
    run.report.table("One core and two", ("server", "by", "one: CPU µs/request", "two: CPU µs/request", "two / one"),
                     rows, "One hot key, 4 x 32; the load client shares the cores.")


# All telemetry of requests, and none; without traces.
TELEMETRY = {"on": {"observability.otel.metrics.endpoint": "http://127.0.0.1:1"},
             "off": {"observability.prometheus.enabled": "false", "observability.otel.metrics.enabled": "false"}}
DEARER = 1.08


def telemetry(run):
    """CPU and instructions per call with all telemetry and without any. Instructions do not depend on other jobs."""
    rows = []
    with contextlib.ExitStack() as stack:
        receiver = stack.enter_context(Process(run.folder / "telemetry", "receiver", receiver_command()))
        receiver.until("listen", lambda: (run.folder / "telemetry" / "port").exists(), 10)
        port = (run.folder / "telemetry" / "port").read_text()
        on = {**TELEMETRY["on"], "observability.otel.metrics.endpoint": f"http://127.0.0.1:{port}",
              "observability.otel.metrics.protocol": "http", "observability.otel.metrics.interval": "1s"}
        states = {"on": on, "off": TELEMETRY["off"]}
        turns = {}
        for name, program in run.servers.items():
            for state, settings in states.items():
                folder = run.folder / "telemetry" / f"{name}-{state}"
                server = hivemind(stack, folder, name, program, {**run.settings, **settings})
                for scenario in ("hot", "keys", "over"):
                    _, expect, options = SCENARIOS[scenario]
                    turns[name, scenario, state] = (lambda server=server, expect=expect, options=options:
                                                    measured(server, expect=expect, n=run.n, **options))
        samples = rounds(run.rounds, turns)
    for name in run.servers:
        for scenario in ("hot", "keys", "over"):
            on, off = samples[name, scenario, "on"], samples[name, scenario, "off"]
            middle, least, most = ratio(on, off)
            rows.append((name, SCENARIOS[scenario][0], spread(s["cpu_us"] for s in off), spread(s["cpu_us"] for s in on),
                         f"{middle:.3f} [{least:.2f}..{most:.2f}]"))
            run.report.target(name, f"{SCENARIOS[scenario][0]}: CPU with telemetry / without", f"<= {DEARER}",
                              f"{middle:.3f}", middle <= DEARER)
        rows.append(counted_with_telemetry(run, name))
    run.report.table("Telemetry", ("server", "what", "off", "on", "on / off"), rows,
                     f"CPU µs/request, median [least..most] of {run.rounds} rounds of {run.n:,} calls in turns; instructions "
                     "by callgrind. On: counted, served to Prometheus, sent over OTLP every second.")


def counted_with_telemetry(run, name):
    """Instructions per call with and without telemetry, one hot key; a row of the table."""
    if not shutil.which("valgrind"):
        return (name, "instructions", "valgrind not found", "", "")
    short, long = run.counted
    each = {}
    for state, settings in TELEMETRY.items():
        few, many = (counted(run, name, n, settings, state) for n in (short, long))
        each[state] = (many - few) / (long - short)
    dearer = each["on"] / each["off"]
    run.report.target(name, "instructions a call with telemetry / without, one hot key", f"<= {DEARER}",
                      f"{dearer:.3f}", dearer <= DEARER)
    return (name, "instructions/request, one hot key", f"{each['off']:,.0f}", f"{each['on']:,.0f}", f"{dearer:.3f}")


def receiver_command():
    """An OTLP receiver over HTTP that accepts everything."""
    code = ("import http.server, pathlib\n"
            "class Taker(http.server.BaseHTTPRequestHandler):\n"
            "    protocol_version = 'HTTP/1.1'\n"
            "    def do_POST(self):\n"
            "        self.rfile.read(int(self.headers['content-length']))\n"
            "        self.send_response(200); self.send_header('content-length', '0'); self.end_headers()\n"
            "    def log_message(self, *_): pass\n"
            "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Taker)\n"
            "pathlib.Path('port.next').write_text(str(server.server_port))\n"
            "pathlib.Path('port.next').rename('port')\n"
            "server.serve_forever()\n")
    return [sys.executable, "-c", code]


def instructions(run):
    """Instructions per call, as the difference of a short and a longer run under callgrind, which excludes startup."""
    if not shutil.which("valgrind"):
        raise Broken("valgrind not found: apt-get install valgrind")
    short, long = run.counted
    rows = []
    for name in [*run.servers, "ref_h2", "ref_tonic"]:
        few, many = (counted(run, name, n) for n in (short, long))
        each = (many - few) / (long - short)
        rows.append((name, f"{each:,.0f}"))
        if name in run.servers:
            run.report.target(name, "instructions a call, one hot key", "<= 36,000", f"{each:,.0f}", each <= 36_000)
    run.report.table("Instructions", ("server", "instructions/request"), rows,
                     f"callgrind, user space only; the difference of {long:,} and {short:,} calls, 4 x 32, one hot key.")


def counted(run, name, n, settings=None, state=""):
    """All instructions of a program that serves n calls."""
    folder = run.folder / "callgrind" / f"{name}{state}-{n}"
    before = ["valgrind", "--tool=callgrind", "--callgrind-out-file=counts"]
    with contextlib.ExitStack() as stack:
        if name in run.servers:
            settings = {**run.settings, **(settings or {})}
            process = hivemind(stack, folder, name, run.servers[name], settings, before=before, seconds=120)
        else:
            addr = f"127.0.0.1:{free_port()}"
            process = stack.enter_context(Process(folder, name, [*before, BUILT / name, addr, "ct"]))
            process.until("answer", lambda: answers(addr), 120)
            process.addr = addr
        # valgrind is about fifty times slower.
        result = load("grpc", process.addr, n=n, key="hot", seconds=240)
        if result["ok"] != n:
            raise Broken(f"{name}: {result['ok']} of {n} calls succeeded under callgrind")
        process.stop(60)
    found = re.search(r"^(?:totals|summary): (\d+)", (folder / "counts").read_text(), re.M)
    if not found:
        raise Broken(f"{name}: callgrind wrote no count")
    return int(found[1])
