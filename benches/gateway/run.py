#!/usr/bin/env python3
"""Benchmark of the gateway against nginx with the same task.

    ./run.py --quick                  fewer and shorter rounds, under a minute
    ./run.py                          everything, about 4 minutes
    ./run.py --only pass,refuse       some sections
    ./run.py --server PATH            another binary

It starts `hivemind serve` (by default target/release/hivemind of this repository: build it first with
`cargo build --release --locked`), an nginx as proxy and an nginx as the upstream of both, all on free loopback ports with
one worker each. It sends to the two proxies in turns with `wrk -t1 -c32`, stops processes by their ids, and prints
Markdown: a table of targets, each PASS or FAIL, and the rounds. It writes no files.

Sections:
  pass     a small response, proxied with a limit that is never reached: CPU per request
  refuse   a request over the limit: nginx with a line in its error log, the gateway with problem document and refusal log
  logged   the same with the gateway's access log, so that both write a line per request; it has no target
  idle     resident memory with 10,000 keep-alive connections that got a response and were idle for 5 s

CPU is user + system from /proc/PID/stat, in ticks of 10 ms. Only ratios of one run are meaningful: wrk, the upstream and
other jobs share the cores. Exit status: 0 if all targets are met, 1 if one is missed, 2 on errors. It needs
nginx and wrk; ./test installs them."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "rls"))
from bench.process import ROOT, Broken, Process, answers, free_port  # noqa: E402  (found by the line above)
from bench.report import Report, machine, said, table  # noqa: E402

CONNECTIONS = 32
IDLE = 10_000
# Seconds without traffic after which a connection counts as idle.
SILENT = 5
PASS_RATIO, REFUSE_RATIO, IDLE_MB = 1.25, 1.1, 150


def nginx(stack, folder, name, http):
    """Starts an nginx with one process. PORT in its configuration becomes a free port."""
    folder.mkdir(parents=True, exist_ok=True)
    addr = f"127.0.0.1:{free_port()}"
    temporary = " ".join(f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (folder / "nginx.conf").write_text(
        "master_process off; daemon off; worker_processes 1; pid nginx.pid; error_log error.log error;\n"
        "worker_rlimit_nofile 20000; events { worker_connections 15000; }\n"
        f"http {{ access_log off; {temporary} keepalive_requests 1000000000; keepalive_timeout 600s;\n"
        + http.replace("PORT", addr) + "\n}\n")
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not program:
        raise Broken("nginx not found; `./test` installs it")
    process = stack.enter_context(Process(folder, name, [program, "-p", folder, "-c", "nginx.conf", "-e", "error.log"]))
    process.addr = addr
    process.until("answer", lambda: answers(addr))
    return process


def upstream(stack, folder):
    return nginx(stack, folder / "upstream", "upstream", 'server { listen PORT; location / { return 200 "hello\\n"; } }')


def nginx_proxy(stack, folder, behind, rate, burst=""):
    return nginx(stack, folder / "nginx", "nginx", f"""
        limit_req_zone $binary_remote_addr zone=z:10m rate={rate};
        limit_req_status 429;
        upstream app {{ server {behind}; keepalive 64; keepalive_requests 1000000000; }}
        server {{ listen PORT; location / {{
            limit_req zone=z {burst};
            proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_pass http://app; }} }}""")


def gateway(stack, folder, program, behind, limits, **front):
    folder = folder / "hivemind"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hivemind.yaml").write_text(json.dumps({
        "server": {"grpc_port": 0, "admin_port": 0, "metrics_port": 0, "workers": 1, "shutdown_grace": "2s"},
        "observability": {"log_level": "warn"},
        "gateway": {"listen": "127.0.0.1:0", "max_connections": 15_000, "idle_timeout": "10m",
                    "refusal_log": str(folder / "refusals.log"), **front,
                    "services": [{"id": "app", "upstream": f"http://{behind}", "limits": limits}]}}))
    process = stack.enter_context(Process(folder, "hivemind", [program, "serve", "--config", "hivemind.yaml"], {}))

    def screen():
        text = process.out.read_text(errors="replace")
        line = re.search(r"^\s*gateway\s.*?://(\S+?)/?(\s|$)", text, re.M)
        return line[1] if line and "Stop it" in text else None
    process.addr = process.until("first screen", screen)
    return process


def wrk(addr, seconds):
    """The number of responses, and of those without a 2xx status."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", f"http://{addr}/"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=True).stdout
    except FileNotFoundError:
        raise Broken("wrk not found; `./test` installs it") from None
    if "Socket errors" in text:
        raise Broken(f"wrk: {text}")
    count = int(re.search(r"(\d+) requests in", text)[1])
    other = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return count, int(other[1]) if other else 0


def turns(run, title, contenders, refused):
    """CPU per request of each contender in µs: alternating rounds, then the medians and their ratio."""
    rounds = []
    for contender in contenders:
        wrk(contender.addr, 1)
    for _ in range(run.rounds):
        costs = []
        for contender in contenders:
            before = contender.cpu()
            count, other = wrk(contender.addr, run.seconds)
            costs.append((contender.cpu() - before) * 1e6 / count)
            # The first request of a new bucket passes.
            if (other < count - 2) if refused else other:
                raise Broken(f"{contender.name}: {other} of {count} responses were refusals")
        rounds.append(costs)
    ours, theirs = (statistics.median(column) for column in zip(*rounds))
    ratio = statistics.median(costs[0] / costs[1] for costs in rounds)
    rows = [(n + 1, f"{a:.1f}", f"{b:.1f}", f"{a / b:.2f}") for n, (a, b) in enumerate(rounds)]
    rows.append(("median", f"{ours:.1f}", f"{theirs:.1f}", f"{ratio:.2f}"))
    run.report.table(title, ("round", "gateway µs", "nginx µs", "ratio"), rows)
    return ratio


def passed(run):
    with contextlib.ExitStack() as stack:
        behind = upstream(stack, run.folder / "pass").addr
        never = {"requests": 1_000_000, "window": "1s", "burst": 1_000_000}
        pair = [gateway(stack, run.folder / "pass", run.program, behind, never),
                nginx_proxy(stack, run.folder / "pass", behind, "1000000r/s", "burst=1000000 nodelay")]
        ratio = turns(run, "Proxied and limited", pair, False)
    run.report.target("hivemind", "CPU of a proxied request, of nginx's", f"<= {PASS_RATIO}", f"{ratio:.2f}",
                      ratio <= PASS_RATIO)


def refusals(run, name, title, log, **front):
    folder = run.folder / name
    with contextlib.ExitStack() as stack:
        behind = upstream(stack, folder).addr
        once = {"requests": 1, "window": "24h", "burst": 1}
        pair = [gateway(stack, folder, run.program, behind, once, **front),
                nginx_proxy(stack, folder, behind, "1r/m")]
        ratio = turns(run, title, pair, True)
        for process, file in zip(pair, (log, "error.log")):
            lines = sum(1 for _ in open(process.folder / file, errors="replace"))
            run.report.parts[-1] += f"\n\n{process.name} wrote {lines:,} lines into its log."
    return ratio


def refused_and_logged(run):
    refusals(run, "logged", "Refused, with a line for each", "access.log",
             access_log=str(run.folder / "logged" / "hivemind" / "access.log"))


def refused(run):
    ratio = refusals(run, "refuse", "Refused", "refusals.log")
    run.report.target("hivemind", "CPU of a refusal, of nginx's", f"<= {REFUSE_RATIO}", f"{ratio:.2f}",
                      ratio <= REFUSE_RATIO)


def hold(addr, count):
    """Opens connections and sends one request over each."""
    host, port = addr.rsplit(":", 1)
    held = []
    for number in range(count):
        s = socket.create_connection((host, int(port)), 10, (f"127.0.0.{1 + number % 8}", 0))
        s.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        if not s.recv(4096).startswith(b"HTTP/1.1 200"):
            raise Broken(f"connection {number} is not served")
        held.append(s)
    return held


def idle(run):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < run.idle + 500:
        raise Broken(f"the limit of open files is {most}: ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    rows, ours = [], None
    with contextlib.ExitStack() as stack:
        behind = upstream(stack, run.folder / "idle").addr
        never = {"requests": 1_000_000, "window": "1s", "burst": 1_000_000}
        for process in (gateway(stack, run.folder / "idle", run.program, behind, never),
                        nginx_proxy(stack, run.folder / "idle", behind, "1000000r/s", "burst=1000000 nodelay")):
            before, _ = process.resident_mb()
            held = hold(process.addr, run.idle)
            time.sleep(SILENT)
            after, _ = process.resident_mb()
            for s in held:
                s.close()
            ours = ours or after
            rows.append((process.name, f"{before:.1f}", f"{after:.1f}", f"{(after - before) * 1e6 / run.idle:,.0f}"))
    run.report.table(f"{run.idle:,} idle keep-alive connections", ("", "MB before", "MB with them", "bytes each"), rows)
    run.report.target("hivemind", f"resident with {run.idle:,} idle connections, MB", f"<= {IDLE_MB}", f"{ours:.1f}",
                      ours <= IDLE_MB)


SECTIONS = {"pass": passed, "refuse": refused, "logged": refused_and_logged, "idle": idle}


class Run:
    """Settings of the sections: durations, number of rounds, and the report."""

    def __init__(self, options, folder):
        self.folder, self.program, self.report = pathlib.Path(folder), options.server, Report("The gateway")
        self.rounds = options.rounds or (2 if options.quick else 7)
        self.seconds = options.seconds or (2 if options.quick else 6)
        self.idle = IDLE


def sections(text):
    chosen = text.split(",")
    for name in chosen:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"unknown section `{name}`; known: {', '.join(SECTIONS)}")
    return chosen


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--only", type=sections, default=list(SECTIONS), help="sections, with commas")
    parser.add_argument("--server", type=pathlib.Path, default=ROOT / "target" / "release" / "hivemind",
                        metavar="PATH", help="the binary to measure")
    parser.add_argument("--rounds", type=int, help="rounds of each section")
    parser.add_argument("--seconds", type=int, help="seconds of each round and contender")
    options = parser.parse_args()
    if not options.server.is_file():
        parser.error(f"{options.server} not found; run cargo build --release --locked or pass --server PATH")
    options.server = options.server.resolve()
    return options


def markdown(report, program):
    now = os.getloadavg()
    version = subprocess.run(["nginx", "-v"], capture_output=True, text=True,
                             env={"PATH": os.environ.get("PATH", "") + ":/usr/sbin"}).stderr.strip()
    head = [f"Measured {report.begun:%Y-%m-%d %H:%M} UTC on {machine()}; load average {report.load[0]:.1f} at the "
            f"start, {now[0]:.1f} at the end. wrk and the upstream share these cores. Compare within one run only.",
            "", f"- {said(str(program), '--version') or 'hivemind'}, harness at "
            f"{said('git', 'describe', '--always', '--dirty') or 'no commit'}; {version}; wrk -t1 -c{CONNECTIONS}"]
    targets = table(("server", "what", "bound", "measured", ""), report.targets) if report.targets else "None measured."
    return "\n".join([f"## {report.title}", "", *head, "", "### Targets", "", targets, "",
                      "\n\n".join(report.parts), ""])


def main():
    options = arguments()
    # Stops all processes if the run is terminated.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as folder:
        run = Run(options, folder)
        for name in options.only:
            print(f"{name} ...", file=sys.stderr, flush=True)
            try:
                SECTIONS[name](run)
            except (Broken, OSError, subprocess.SubprocessError) as why:
                print(f"{name}: {why}", file=sys.stderr, flush=True)
                run.report.broken(name, str(why).replace("\n", " "))
    print(markdown(run.report, options.server))
    sys.exit(2 if run.report.failed else 1 if run.report.missed() else 0)


if __name__ == "__main__":
    main()
