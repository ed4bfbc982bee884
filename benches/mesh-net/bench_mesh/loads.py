"""Loads at several nodes at once."""
import json
import subprocess

from bench.process import BUILT, Broken


def loads(nodes, each=None, **options):
    """Runs a load client for each node at the same time; `each` gives options of one by its number."""
    clients = []
    for index, node in enumerate(nodes):
        command = [str(BUILT / "load"), "grpc", "--addr", node.addr]
        for name, value in {**options, **(each(index) if each else {})}.items():
            command += [f"--{name}", str(value)]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    results = []
    try:
        for client in clients:
            out, err = client.communicate(timeout=options.get("seconds", 60) + 60)
            if client.returncode:
                raise Broken(f"load: {err.strip()}")
            results.append(json.loads(out))
    finally:
        for client in clients:
            if client.poll() is None:
                client.kill()
                client.wait()
    wrong = sum(result["other"] for result in results)
    if wrong:
        raise Broken(f"{wrong} answers were errors")
    return results
