"""Sends a message several times over a WebSocket and prints the result: `python3 say.py ws://HOST:PORT/PATH TIMES`."""

import socket, sys
from urllib.parse import urlsplit

import frames

url, times = urlsplit(sys.argv[1]), int(sys.argv[2])
stream = socket.create_connection((url.hostname, url.port), timeout=10).makefile("rwb")
key = "AAAAAAAAAAAAAAAAAAAAAA=="
stream.write(f"GET {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode())
stream.flush()
status = int(stream.readline().split()[1])
for line in iter(stream.readline, b"\r\n"):
    pass
if status != 101:
    print(f"not opened: {status}")
    sys.exit()
echoes = 0
for number in range(times):
    frames.write(stream, frames.TEXT, b"hello", masked=True)
    kind, payload = frames.read(stream)
    if kind != frames.TEXT:
        code = int.from_bytes(payload[:2], "big") if kind == frames.CLOSE else "nothing"
        print(f"{echoes} echoes, then closed with {code}")
        sys.exit()
    echoes += 1
print(f"{echoes} echoes")
