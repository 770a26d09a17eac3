"""Makes gRPC calls for a torture client under a retry policy: gRPC retries a call that ends with UNAVAILABLE.

The arguments are the addresses of the servers. Each line of the input starts a call, `ID call SERVER METHOD SECONDS
REQUEST`, or cancels one, `ID cancel`. Each line of the output is the end of a call: `ID ok RESPONSE`, or `ID CODE
DETAILS MESSAGE`. Requests, responses, details and messages are bytes in hex. This program does not decode them, so it
needs no stubs.
"""

import json
import os
import sys
import threading

import grpc

POLICY = {
    "name": [{"service": "fencepost.v1.LockService"}],
    "retryPolicy": {
        "maxAttempts": 5,
        "initialBackoff": "0.1s",
        "maxBackoff": "0.4s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    },
}
# Histories are short: detect dead connections, and reconnect, within about a second.
OPTIONS = [
    ("grpc.service_config", json.dumps({"methodConfig": [POLICY]})),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 300),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
]

calls = {}
output = threading.Lock()


def ended(number, call):
    calls.pop(number, None)
    code = call.code()
    if code == grpc.StatusCode.OK:
        line = f"{number} ok {call.result().hex()}"
    else:
        details = dict(call.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        line = f"{number} {code.value[0]} {details.hex()} {(call.details() or '').encode().hex()}"
    with output:
        print(line, flush=True)


def main():
    channels = [grpc.insecure_channel(server, OPTIONS) for server in sys.argv[1:]]
    for line in sys.stdin:
        number, what, *rest = line.rstrip("\n").split(" ")
        if what == "call":
            server, method, seconds, request = rest
            send = channels[int(server)].unary_unary(f"/fencepost.v1.LockService/{method}")
            call = calls[number] = send.future(bytes.fromhex(request), timeout=float(seconds))
            call.add_done_callback(lambda call, number=number: ended(number, call))
        elif call := calls.get(number):
            call.cancel()
    # The client has ended: nobody reads the remaining answers.
    os._exit(0)


main()
