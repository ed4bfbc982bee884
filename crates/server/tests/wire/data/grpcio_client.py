"""Calls the rate limit service with grpcio, in the mode that the argument names.

Messages are bytes on both sides, so that no generated code is needed. Each call prints one
line: the status, and the bytes of the answer in hexadecimal if there is one.
"""

import sys
import threading

import grpc

METHOD = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def outcome(call):
    """Waits for a call and returns its outcome."""
    try:
        return f"OK {call.result().hex()}"
    except grpc.FutureCancelledError:
        return "CANCELLED"
    except grpc.RpcError as error:
        return error.code().name


def never(release):
    """Yields no message until the call is over."""
    release.wait()
    yield from ()


def main(address, way, request):
    request = bytes.fromhex(request)
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(METHOD)
        endless = channel.stream_unary(METHOD)
        if way == "plain":
            print(outcome(ask.future(request)))
        elif way == "within a deadline":
            print(outcome(ask.future(request, timeout=20)))
        elif way == "past a deadline":
            release = threading.Event()
            print(outcome(endless.future(never(release), timeout=0.3)))
            release.set()
            print(outcome(ask.future(request)))
        elif way == "compressed":
            print(outcome(ask.future(request, compression=grpc.Compression.Gzip)))
            print(outcome(ask.future(request)))
        elif way == "cancelled":
            release = threading.Event()
            call = endless.future(never(release))
            call.cancel()
            print(outcome(call))
            release.set()
            print(outcome(ask.future(request)))
        elif way == "with metadata":
            for number in range(10):
                metadata = [("x-request-id", f"request-{number}"), ("trace-bin", bytes([number]))]
                print(outcome(ask.future(request, metadata=metadata)))
        elif way == "a thousand":
            for call in [ask.future(request) for _ in range(1000)]:
                print(outcome(call))
        else:
            sys.exit(f"unknown: {way}")


main(*sys.argv[1:])
