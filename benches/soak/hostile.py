"""Hostile clients of a soak run. They attack all ports from addresses of their own; honest clients must not notice.

Each class repeats one attack and counts attempts, so that an attack that does not run is detected."""
import http.client
import random
import socket
import ssl
import threading

ADDRESSES = [f"127.0.0.{number}" for number in range(2, 12)]  # Those of hostile clients; honest ones have 127.0.0.1.
HELD = 300  # Connections that a holder keeps open, unless it says otherwise.
SLOW = 20  # Connections that send a byte at a time.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # With an empty SETTINGS frame.
ESTABLISHED = "01"
NESTED = '{"rules": [{"name": "a.yaml", "text": "domain: a"}], "source": {"recent": true}, "descriptors": ' + "[" * 20000 + "]" * 20000 + "}"


def sockets(ports):
    """The inodes of established connections of hostile clients at these ports, from /proc/net/tcp."""
    # Addresses there are hexadecimal with the last byte first.
    hostile = {"".join(f"{int(byte):02X}" for byte in reversed(address.split("."))) for address in ADDRESSES}
    local = {f"{port:04X}" for port in ports}
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in list(table)[1:]]
    return {row[9] for row in rows if row[3] == ESTABLISHED and row[2].split(":")[0] in hostile and row[1].split(":")[1] in local}


class Attack(threading.Thread):
    """An attack in rounds, until the run is over."""

    def __init__(self, soak, port, name):
        super().__init__(daemon=True)
        self.soak, self.at, self.name_of_port, self.attempts = soak, ("127.0.0.1", port), name, 0
        self.dice = random.Random(f"{type(self).__name__} {port}")

    def __str__(self):
        return f"{self.what}, {self.name_of_port}"

    def run(self):
        while not self.soak.over.wait(self.pause):
            if self.soak.broken == "tame":
                continue
            try:
                self.round()
            except (OSError, http.client.HTTPException):
                pass  # The server may reject and close anything hostile.

    def connect(self):
        self.attempts += 1
        return socket.create_connection(self.at, timeout=2, source_address=(self.dice.choice(ADDRESSES), 0))


class Hold(Attack):
    """Keeps connections open: speaks just enough that none counts as silent, and never makes a call."""
    what, pause = "held connections", 0.2

    def __init__(self, *arguments, first=PREFACE, held=HELD):
        super().__init__(*arguments)
        self.first, self.most, self.held = first, held, []

    def round(self):
        self.held = [each for each in self.held if self.is_open(each)]
        for _ in range(min(20, self.most - len(self.held))):
            connection = self.connect()
            connection.sendall(self.first)
            connection.setblocking(False)
            self.held.append(connection)

    @staticmethod
    def is_open(connection):
        try:
            if connection.recv(65536):
                return True
        except BlockingIOError:
            return True
        except OSError:
            pass
        connection.close()
        return False


class Garbage(Attack):
    """Random bytes, some of which begin like a request or a frame."""
    what, pause = "garbage", 0.1

    def round(self):
        begin = self.dice.choice([b"", PREFACE, b"GET / HTTP/1.1\r\nhost: a\r\n", b"POST /json HTTP/1.1\r\ncontent-length: 9\r\n\r\n", b"\x16\x03\x01\x02\x00"])
        with self.connect() as connection:
            connection.sendall(begin + self.dice.randbytes(self.dice.randrange(2000)))
            connection.recv(100)


class Datagrams(Attack):
    """Random datagrams at the port of the mesh."""
    what, pause = "datagrams", 0.05

    def round(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(10):
                self.attempts += 1
                sender.sendto(self.dice.randbytes(self.dice.randrange(1, 1400)), self.at)


class SlowBody(Attack):
    """Requests whose bodies arrive byte by byte."""
    what, pause = "slow bodies", 1.0
    head = b"POST /json HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 10000\r\n\r\n{"

    def __init__(self, *arguments, tls=False):
        super().__init__(*arguments)
        self.open, self.tls = [], None
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    def round(self):
        still = []
        for connection in self.open:
            try:
                connection.sendall(b" ")
                still.append(connection)
            except OSError:
                connection.close()
        self.open = still
        while len(self.open) < SLOW:
            connection = self.connect()
            if self.tls:
                connection = self.tls.wrap_socket(connection)
            connection.sendall(self.head)
            self.open.append(connection)


class Nested(Attack):
    """Deeply nested JSON bodies."""
    what, pause = "nested JSON", 1.0

    def round(self):
        self.attempts += 1
        connection = http.client.HTTPConnection(*self.at, timeout=10)
        try:
            connection.request("POST", self.dice.choice(["/json", "/api/v1/simulate", "/api/v1/explain"]), NESTED)
            connection.getresponse().read()
        finally:
            connection.close()


def attacks(soak, node, gateway, mesh):
    """All attacks on one node, its gateway and its port of the mesh."""
    grpc, admin, metrics, _ = node.ports
    idle = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    return [
        Hold(soak, grpc, "gRPC"), Hold(soak, admin, "admin", first=idle), Hold(soak, gateway, "gateway", first=b"\x16\x03\x01", held=100),
        *(Garbage(soak, port, name) for port, name in ((grpc, "gRPC"), (admin, "admin"), (metrics, "metrics"), (gateway, "gateway"), (mesh, "mesh"))),
        Datagrams(soak, mesh, "mesh"), SlowBody(soak, admin, "admin"), SlowBody(soak, gateway, "gateway", tls=True),
        Nested(soak, admin, "admin"),
    ]
