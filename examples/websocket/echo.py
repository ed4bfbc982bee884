"""An app that echoes over WebSockets: `python3 echo.py PORT`."""

import socketserver, sys

import frames


class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        head = {}
        for line in iter(self.rfile.readline, b"\r\n"):
            if not line:
                return
            name, _, value = line.decode("latin-1").partition(":")
            head[name.lower()] = value.strip()
        key = head.get("sec-websocket-key")
        if not key:
            self.wfile.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        self.wfile.write(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         f"Sec-WebSocket-Accept: {frames.accept(key)}\r\n\r\n".encode())
        while True:
            kind, payload = frames.read(self.rfile)
            if kind in (None, frames.CLOSE):
                return
            frames.write(self.wfile, frames.PONG if kind == frames.PING else kind, payload, masked=False)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
