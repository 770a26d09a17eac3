"""Bounds and intervals of the engine, in seconds."""

from __future__ import annotations

from fencepost._facts import (
    CONNECT_TIMEOUT_MS,
    LINGER_MS,
    RECONNECT_FIRST_MS,
    RECONNECT_MAX_MS,
    RETRY_FIRST_MS,
    RETRY_FOR_MS,
    RETRY_MAX_MS,
    SILENCE_DIVISOR,
)

CONNECT_TIMEOUT = CONNECT_TIMEOUT_MS / 1000
"""How long a session may take to connect, with the TLS handshake."""

TOKEN_TIMEOUT = 5.0
"""How long the function for the bearer token may take. It does not count as time of a server."""

CALL_TIMEOUT = 5.0
"""How long one transmission may take, in addition to the wait that it asks for."""

ANSWER_TIME_MIN = 0.5
"""The least time that one of several servers gets to answer: over a slow network, a connection with TLS alone takes
several round trips."""

SIGN_TIMEOUT = 3.0
"""How long a session may be silent after a transmission: servers answer at once, if only that the request waits."""

PROBE_TIMEOUT = 1.0
"""How long a look at a server that could not be called may take."""

TRANSMISSION_MIN = 0.1
"""How long the last transmission of a call may take at least."""

RETRY_FOR = RETRY_FOR_MS / 1000
"""How long a call is retried, in addition to its wait, unless the client says otherwise."""

LINGER = LINGER_MS / 1000
"""How long an unused session stays open for the next lock."""

MOVE_INTERVAL = 5.0
"""The shortest time between two moves from a session that works to another server. All leases move with it, and if the
store is the cause, no server does better."""

CLOCK_STEP = 0.001
"""How much later than a bound it is checked, so that the check finds it exceeded."""

ACQUIRES_MAX = 8_000
RELEASES_MAX = 2_000
"""How many acquires and releases are in flight on a session; more of them wait here. The server allows 16,384 in all.
They are counted separately, because a queued acquire may wait for a release."""


def answer_time(call_timeout: float, retry_for: float, servers: int) -> float:
    """Returns how long one of so many servers gets to answer a call that does not wait. Each of several servers gets a
    part of the time: one that hangs must not use up that of the others.
    """
    return min(call_timeout, max(retry_for / servers, ANSWER_TIME_MIN)) if servers > 1 else call_timeout


def retry_pause(retries: int, random: float) -> float:
    """Returns the pause before retry number ``retries`` (from 0), with jitter; ``random`` is from 0 to 1."""
    full = min(RETRY_FIRST_MS << min(retries, 8), RETRY_MAX_MS) / 1000
    return full / 2 + random * full / 2


def renewal_pause(failures: int, ttl: float, random: float) -> float:
    """Returns the pause before the next renewal of a lease by itself, after ``failures`` that failed. Several
    fit in the TTL, as with beats.
    """
    return retry_pause(failures - 1, random) if failures else ttl / 4 + random * ttl / 16


def reconnect_pause(tries: int, shortest_ttl: float | None, random: float) -> float:
    """Returns the pause before the next session, after ``tries`` that failed. Random, so that the clients of a stopped
    server do not all connect to the next one at once; short enough that the shortest lease survives several.
    """
    full = min(RECONNECT_FIRST_MS << min(tries, 8), RECONNECT_MAX_MS) / 1000
    if shortest_ttl is not None:
        full = min(full, shortest_ttl / 8)
    return full * random if tries == 0 else full / 2 + random * full / 2


def answer_timeout(ttl: float) -> float:
    """Returns how long the first answer on a session with leases may take."""
    return min(max(ttl / 6, 0.25), 5.0)


def silence(ttl: float) -> float:
    """Returns after how long without a message a session with leases is dead."""
    return ttl / SILENCE_DIVISOR
