"""Several locks at once, with threads."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType

from fencepost._core import timing, together
from fencepost._core.acquire import Acquire
from fencepost._core.clock import now
from fencepost._core.events import write
from fencepost._core.lease import Lease
from fencepost._core.outcome import lost_error, settled
from fencepost._core.release import Release
from fencepost._core.together import Asked
from fencepost._lock import Lock, LostEvent
from fencepost._threads import Driver
from fencepost._waits import Pending
from fencepost.errors import ClientClosed, Contended, FencepostError, LockLost, NotAllAcquired
from fencepost.types import Released


class LockSet(Mapping[str, Lock]):
    """Several locks that this process holds together: a mapping from their names, in the order of their bytes.

    Each has a token of its own: send ``locks[name].token`` with every write to the store that this lock protects. The
    set is valid until the first of its locks ends, and lost when one is. Stop the work then, and release the set: the
    others are held until that.
    """

    def __init__(self, driver: Driver, locks: Mapping[str, Lock], leases: list[Lease], gathering: _Gathering) -> None:
        self._driver = driver
        self._locks = locks
        self._leases = leases
        self._ended = gathering.ended

    def __getitem__(self, name: str) -> Lock:
        return self._locks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._locks)

    def __len__(self) -> int:
        return len(self._locks)

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing token of each lock."""
        return {name: lock.token for name, lock in self._locks.items()}

    @property
    def loss(self) -> LockLost | None:
        """How one of the locks was lost; None if none was."""
        for lease in self._leases:
            self._driver.check(lease)
        return together.first_loss(self._leases)

    @property
    def lost(self) -> LostEvent:
        """Set when one of the locks is lost; not by a release."""
        return LostEvent(self, self._ended)

    def valid(self) -> bool:
        """Whether all locks are held, by the clock of this process. Once false, always false."""
        return all(self._driver.check(it) for it in self._leases)

    def remaining(self) -> float:
        """Returns for how many seconds all locks are held without a renewal; 0 if one is not held."""
        return min(it.remaining() for it in self._locks.values())

    def check(self) -> None:
        """Raises :class:`LockLost` if one of the locks is lost. Call it before each step of the work.

        After a release it raises :class:`FencepostError`."""
        for lock in self._locks.values():
            lock.check()

    def release(self) -> Released:
        """Releases all locks, the last one first, and waits for all answers. Stop the work that they protect before.

        A repeated call returns the same. The result is that of the first lock that was not held until then, else
        ``RELEASED``. A release without an answer is repeated in the background.

        Raises:
            NotAllReleased: the release of some is not confirmed. The error names them; the others have ended.
        """
        self._driver.check_use()
        for lease in self._leases:
            self._driver.check(lease)
        return together.worst(self._leases, _release(self._driver, self._leases))

    def __enter__(self) -> LockSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost = self.loss
        try:
            self.release()
        except FencepostError as failure:
            # The work is done, and was protected. The leases end by their TTLs at the latest.
            if not self._driver.is_over:
                write(logging.WARNING, f"not all locks are released yet: {failure}")
        lost = together.lost_at_exit(self._leases, lost)
        if lost is None or (isinstance(error, LockLost) and error.token in self.tokens.values()):
            return
        if error is None or isinstance(error, Exception):
            raise lost from error

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        tokens = ", ".join(f"{name!r} token={token}" for name, token in self.tokens.items())
        return f"<fencepost.LockSet {tokens} {'held' if self.valid() else 'not held'}>"


class _Gathering:
    """What the leases of a set tell of, from the first grant on. They refer to it, and it refers to no lock."""

    def __init__(self, driver: Driver, on_lost: Callable[[LockLost], None] | None) -> None:
        self.ended = threading.Event()
        """Set when the first lease of the set has ended."""
        self._driver = driver
        self._on_lost = on_lost
        self._lost: Lease | None = None
        self._pending: Pending | None = None
        self._handed_out = False
        # Held for a few steps only. Where the driver's lock is held too, that was taken before.
        self._guard = threading.Lock()

    def begin(self) -> Pending:
        """Returns what the next acquire waits with. It ends early, with LockLost, if a lease of the set is lost."""
        pending = Pending()
        with self._guard:
            self._pending = pending
            if self._lost is not None:
                pending.stopped = _error(self._lost)
        return pending

    def hand_out(self) -> None:
        """From here on the caller is told of a loss. Raises LockLost if there was one before."""
        with self._guard:
            self._pending = None
            self._handed_out = self._lost is None
        if self._lost is not None and not self._handed_out:
            raise _error(self._lost)

    def end(self, lease: Lease) -> None:
        """A lease has ended. Called by the engine."""
        self.ended.set()
        if lease.lost is None:
            return
        with self._guard:
            if self._lost is not None:
                return
            self._lost = lease
            pending, handed_out = self._pending, self._handed_out
        if pending is not None:
            self._driver.stop(pending, _error(lease))
        if handed_out and self._on_lost is not None:
            self._driver.callback(lease, partial(self._on_lost, _error(lease)))


def _error(lease: Lease) -> LockLost:
    assert lease.lost is not None
    return lost_error(lease, lease.lost)


class Collector:
    """Acquires the locks of a set, one after another."""

    def __init__(
        self, client: object, driver: Driver, asked: Asked, holder: str, on_lost: Callable[[LockLost], None] | None
    ) -> None:
        self._client = client
        self._driver = driver
        self._asked = asked
        self._holder = holder
        self._on_lost = on_lost

    def acquire(self) -> LockSet:
        """Acquires all, and waits for each as long as the one wait allows."""
        return self._collect(waits=True)

    def acquire_by_tries(self) -> LockSet | None:
        """Tries again and again to acquire all without a wait, until the one wait is over."""
        tries = 0
        while True:
            try:
                return self._collect(waits=False)
            except NotAllAcquired as error:
                if not isinstance(error.cause, Contended):
                    raise
            pause = timing.retry_pause(tries, random.random())
            tries += 1
            if now() + pause >= self._asked.deadline:
                return None
            time.sleep(pause)

    def _collect(self, *, waits: bool) -> LockSet:
        """Interrupted at any point, or failed, it gives back what it has."""
        gathering = _Gathering(self._driver, self._on_lost)
        acquired: list[Acquire] = []
        leases: list[Lease] = []

        def take(acquire: Acquire) -> None:
            assert acquire.lease is not None
            leases.append(acquire.lease)
            acquired.append(acquire)
            self._driver.watch(acquire.lease, partial(gathering.end, acquire.lease), None)

        try:
            for number in range(len(self._asked.names)):
                self._driver.acquire(self._asked.request(number, now(), waits=waits), take, gathering.begin())
            # Not before: a lock that is collected without a release warns of that.
            locks = {it.lease.name: self._lock(it, it.lease, gathering) for it in acquired if it.lease is not None}
            for lease in leases:
                self._driver.check(lease)
            gathering.hand_out()
        except BaseException as error:
            if isinstance(error, FencepostError) and not isinstance(error, ClientClosed):
                _release(self._driver, leases)
                raise self._asked.not_acquired(error, leases, waits=waits) from error
            for lease in reversed(leases):
                self._driver.drop(lease)
            raise
        return LockSet(self._driver, locks, leases, gathering)

    def _lock(self, acquire: Acquire, lease: Lease, gathering: _Gathering) -> Lock:
        end = acquire.previous_end
        return Lock(self._client, self._driver, lease, self._holder, end, None, None, gathering.end)


def _release(driver: Driver, leases: Sequence[Lease]) -> dict[Lease, Release]:
    """Releases the leases that are not over, the last one first. Interrupted, that goes on in the background."""
    open_ones = [it for it in reversed(leases) if settled(it, driver.give_up) is None]
    done = driver.release_all(open_ones)
    for lease, release in zip(open_ones, done, strict=True):
        lease.result = release.result
    return dict(zip(open_ones, done, strict=True))
