#!/usr/bin/env python3
"""How large the binary is without symbols, what it needs, and how long it takes from its start until it answers.

    benches/start.py [BINARY]     target/release/hivemind if none is named; 20 starts

A start is `hivemind serve` with built-in rules on free ports, until `/readyz` answers 200. Wall time depends on what else the machine does;
CPU, user and system, hardly. So the bounds are of size and CPU: exit 1 above 22 MB or 100 ms. And at once if the binary, or a library that it
needs, needs another one than the C library with its loader and libgcc: seen on `benches/start.py /usr/bin/curl`."""
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
# libm is a part of the C library; the vdso is the kernel's.
NEEDED = re.compile(r"(linux-vdso|libc|libm|libgcc_s|ld-linux[\w-]*)\.so\.\d+")


def beyond(program):
    """The libraries that a program needs, directly or by others, and should not."""
    told = subprocess.run(["ldd", program], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    names = [pathlib.Path(line.split()[0]).name for line in told.splitlines()]
    assert any(name.startswith("libc.so") for name in names), f"ldd tells in another way: {told}"
    return [name for name in names if not NEEDED.fullmatch(name)]


binary = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "target/release/hivemind").resolve()
if others := beyond(binary):
    sys.exit(f"start.py: {binary.name} needs {', '.join(others)}, and the README says that it needs the C library with libgcc and nothing else")
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
    print(f"{size:.1f} MB without symbols; of {STARTS} starts the middle one answered after {statistics.median(walls) * 1e3:.0f} ms "
          f"(fastest {min(walls) * 1e3:.0f}), with {cpu:.0f} ms of CPU and {statistics.median(memory):.0f} MB resident; load {os.getloadavg()[0]:.1f}")
    over = [what for what, is_over in ((f"more than {LARGEST_MB} MB", size > LARGEST_MB), (f"more than {MOST_CPU_MS} ms of CPU", cpu > MOST_CPU_MS)) if is_over]
    if over:
        sys.exit(f"start.py: {' and '.join(over)}, and the README says that it is not")
