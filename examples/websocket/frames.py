"""The parts of RFC 6455 that an echo needs: the accept key and unfragmented frames."""

import base64, hashlib, os

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


def accept(key):
    return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()


def write(stream, kind, payload, masked):
    """Writes one frame; a client masks its payload."""
    assert len(payload) < 126
    mask = os.urandom(4) if masked else b""
    if masked:
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    stream.write(bytes([0x80 | kind, (0x80 if masked else 0) | len(payload)]) + mask + payload)
    stream.flush()


def read(stream):
    """Reads the next frame and returns its kind and payload; None at the end."""
    head = stream.read(2)
    if len(head) < 2 or head[1] & 0x7F > 125:
        return None, b""
    mask = stream.read(4) if head[1] & 0x80 else bytes(4)
    payload = stream.read(head[1] & 0x7F)
    return head[0] & 0x0F, bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
