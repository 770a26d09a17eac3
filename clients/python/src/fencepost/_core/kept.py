"""The leases that a client keeps: the pace that their TTLs set, and what renews those for which no session has room."""

from __future__ import annotations

from collections.abc import Iterator

from fencepost._core.lease import Lease
from fencepost._core.renew import Alone


class Kept:
    """The leases that are not over."""

    def __init__(self) -> None:
        self._leases: dict[Lease, float | None] = {}
        """With their TTLs; None for those that are given up."""
        self._ttls: dict[float, int] = {}
        """How many leases have each TTL."""
        self._alone: dict[Lease, Alone] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, lease: Lease) -> bool:
        return lease in self._leases

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases)

    def add(self, lease: Lease) -> bool:
        """Adds a lease. Returns whether it sets the pace."""
        pace = self.pace()
        self._leases[lease] = lease.ttl
        self._ttls[lease.ttl] = self._ttls.get(lease.ttl, 0) + 1
        return pace is None or lease.ttl < pace

    def set_ttl(self, lease: Lease) -> None:
        """The TTL of a lease has turned out to be longer: a repeated answer tells less of it."""
        if self._leases.get(lease) not in (None, lease.ttl):
            self.give_up(lease)
            self.add(lease)

    def give_up(self, lease: Lease) -> None:
        """Keeps a lease until the end that is known. The server's beats are not for it any more."""
        ttl, self._leases[lease] = self._leases[lease], None
        if ttl is not None:
            self._ttls[ttl] -= 1
            if not self._ttls[ttl]:
                del self._ttls[ttl]

    def remove(self, lease: Lease) -> bool:
        """Removes a lease that is over. Returns whether it was there."""
        self._stop_alone(lease)
        if lease not in self._leases:
            return False
        self.give_up(lease)
        del self._leases[lease]
        return True

    def renew_by(self, lease: Lease, alone: Alone) -> None:
        """From now on this renews the lease, and nothing that did so before."""
        self._stop_alone(lease)
        self._alone[lease] = alone

    def pace(self) -> float | None:
        """The shortest TTL, which sets the server's beat interval."""
        return min(self._ttls, default=None)

    def by_urgency(self) -> list[Lease]:
        """Those that a session is to renew. The one that ends first comes first."""
        kept = (lease for lease in self._leases if not lease.given_up)
        return sorted(kept, key=lambda lease: lease.valid_until)

    def _stop_alone(self, lease: Lease) -> None:
        alone = self._alone.pop(lease, None)
        if alone is not None:
            alone.stop()
