#!/usr/bin/env python3
"""Benchmark of the binary: size without symbols, shared libraries, and time from start to the first response.

    benches/start.py [BINARY]     20 starts of BINARY, by default target/release/hivemind

A start is `hivemind serve` with built-in rules on free ports, until `/readyz` returns 200. Wall time depends on other jobs of the machine, CPU time
hardly does, so the bounds are on size and CPU: exit status 1 above 22 MB or 100 ms. It also fails if the binary or one of its libraries needs a library
other than the C library with its loader and libgcc, as in `benches/start.py /usr/bin/curl`."""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

STARTS = 20
LARGEST_MB = 22
MOST_CPU_MS = 100
# libm is part of the C library, the vdso part of the kernel.
NEEDED = re.compile(r"(linux-vdso|libc|libm|libgcc_s|ld-linux[\w-]*)\.so\.\d+")


def beyond(program):
    """Libraries that a program needs, directly or indirectly, and should not."""
    output = subprocess.run(["ldd", program], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    names = [pathlib.Path(line.split()[0]).name for line in output.splitlines()]
    assert any(name.startswith("libc.so") for name in names), f"unexpected output of ldd: {output}"
    return [name for name in names if not NEEDED.fullmatch(name)]


binary = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "target/release/hivemind").resolve()
if others := beyond(binary):
    sys.exit(f"start.py: {binary.name} needs {', '.join(others)}, and the README states that it needs only the C library with libgcc")
with tempfile.TemporaryDirectory() as folder:
    stripped = pathlib.Path(folder, "hivemind")
    subprocess.run(["strip", "-o", stripped, binary], check=True)
    ports = {f"HIVEMIND_SERVER__{port}_PORT": "0" for port in ("GRPC", "ADMIN", "METRICS")}
    walls, cpus, memory = [], [], []
    for _ in range(STARTS):
        begun = time.monotonic()
        process = subprocess.Popen([stripped, "serve"], env={**os.environ, **ports}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            admin = next(found[1] for line in process.stdout if (found := re.search(r"admin +(http://\S+)", line)))
            while urllib.request.urlopen(f"{admin}/readyz").status != 200:
                pass
            walls.append(time.monotonic() - begun)
            cpus.append(sum(int(pathlib.Path(task, "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir()) / 1e9)
            memory.append(int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text())[1]) * 1024 / 1e6)
        finally:
            process.terminate()
            process.wait(15)
    size, cpu = stripped.stat().st_size / 1e6, statistics.median(cpus) * 1e3
    print(f"{size:.1f} MB without symbols; median of {STARTS} starts until the first response: {statistics.median(walls) * 1e3:.0f} ms "
          f"(minimum {min(walls) * 1e3:.0f}), with {cpu:.0f} ms of CPU and {statistics.median(memory):.0f} MB resident; load {os.getloadavg()[0]:.1f}")
    over = [what for what, is_over in ((f"more than {LARGEST_MB} MB", size > LARGEST_MB), (f"more than {MOST_CPU_MS} ms of CPU", cpu > MOST_CPU_MS)) if is_over]
    if over:
        sys.exit(f"start.py: {' and '.join(over)}, which contradicts the README")
