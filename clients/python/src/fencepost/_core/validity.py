"""Until when a lease is valid by its holder's clock. All of that arithmetic is in this file.

``valid until = sent + held_for + ttl - drift - margin``. The server counts ``ttl`` from ``held_for`` after the
arrival of the request, which is after it was sent: whatever the network did, the lease ends later on the server. The
drift allows for different clock rates, the margin for the time between a check and the action that follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from fencepost._facts import DRIFT_DIVISOR, MARGIN_DIVISOR, MARGIN_MIN_MS

_MARGIN_MIN = MARGIN_MIN_MS / 1000

# A lease is renewed when a third of its TTL has passed, with the next beat (a ninth). If less than this part is left,
# a renewal must have failed.
_OVERDUE = 0.35


@dataclass(frozen=True)
class Reading:
    """What an answer says about a lease, in seconds of the local clock."""

    sent: float
    """When the transmission that was answered was sent."""
    read: float
    """When the answer was received."""
    held_for: float
    """How long the server held the request before it asked its store."""
    ttl: float
    """The remaining TTL at that time."""

    def valid_until(self) -> float:
        """Returns the end of the lease by the holder's clock."""
        # The server cannot have held the request for longer than the whole exchange took. A faster clock of the server
        # may report more after a long wait; the holder's clock decides.
        held_for = min(self.held_for, max(self.read - self.sent, 0.0))
        kept_back = self.ttl / DRIFT_DIVISOR + max(self.ttl / MARGIN_DIVISOR, _MARGIN_MIN)
        return self.sent + held_for + self.ttl - kept_back


def overdue_at(valid_until: float, ttl: float) -> float:
    """Returns when a renewal must have failed, unless one has moved the end of the validity since."""
    return valid_until - _OVERDUE * ttl
