"""The client with threads."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType

from fencepost._calls import Calls
from fencepost._client_reads import Reads
from fencepost._client_sets import Sets
from fencepost._core import convert, options, requests, timing
from fencepost._core.acquire import Acquire
from fencepost._core.campaign import Campaign
from fencepost._core.options import Tls, Token
from fencepost._lead import ResultT, lead
from fencepost._lock import Lock
from fencepost._threads import Driver
from fencepost._waits import Pending
from fencepost.errors import Contended
from fencepost.types import LockMode, Loss
from fencepost.v1 import lock_pb2 as pb


class Client(Reads, Sets):
    """A client of Fencepost. All its locks share one connection; it may be used by any thread.

    It connects when it is first needed, and moves to the next server when one fails. Its threads are daemons. Close
    it at the end, or use it in a ``with`` statement: locks that are still held are released then. After a fork,
    calls in the child raise :class:`ClientClosed`: start processes with the method ``spawn`` of
    ``multiprocessing``, or before the first client is made.
    """

    def __init__(
        self,
        servers: str | Iterable[str] | None = None,
        *,
        holder: str | None = None,
        tls: Tls | None = None,
        token: Token | None = None,
        credentials: str | os.PathLike[str] | None = None,
        retry_for: float | timedelta = timing.RETRY_FOR,
    ) -> None:
        """
        Args:
            servers: Addresses: ``host:port``, ``https://host:port`` for TLS, or ``unix:/path``; a list, or a text with
                commas. Default: the variable ``FENCEPOST_SERVER``, else ``127.0.0.1:7420``.
            holder: The label that others see when they ask who holds a lock, at most 256 bytes. Default:
                ``user@host:pid``.
            tls: Files for ``https://`` servers. Default: the variables ``FENCEPOST_CA``, ``FENCEPOST_CERT`` and
                ``FENCEPOST_KEY``, else the authorities of this machine.
            token: A bearer token, or a function that returns one within 5 s, asked before each connection and call. If
                it fails, the call that needs the token raises ``Refused`` with the code ``UNAUTHENTICATED``. Refused
                for a server on another machine without TLS.
            credentials: A file with the bearer token alone, in place of ``token``. It is read before each connection
                and call, so that others can replace it before it expires. Default: the variable
                ``FENCEPOST_CREDENTIALS``.
            retry_for: For how many seconds a call is repeated while no server answers it, in addition to the time that
                it waits for a lock: 0 to 86,400.

        Raises:
            ValueError, TypeError: an address or another argument is invalid.
            OSError: a file of TLS cannot be read.
            Refused: gevent or eventlet has patched the threads of this process, and calls would hang.
        """
        self._options = options.check(servers, holder, tls, token, credentials, retry_for)
        self._driver = Driver(self._options)
        self._calls = Calls(self._options)
        weakref.finalize(self, self._driver.drop_client).atexit = False

    @contextmanager
    def lock(
        self,
        name: str,
        *,
        ttl: float | timedelta | None = None,
        wait: float | timedelta = 0,
        holder: str | None = None,
        metadata: Mapping[str, str] | None = None,
        request_id: str | uuid.UUID | None = None,
        min_token: int = 0,
        max_hold: float | timedelta | None = None,
        min_hold: float | timedelta | None = None,
        lock_delay: float | timedelta | None = None,
        shared: bool = False,
        semaphore: int | None = None,
        permits: int | None = None,
        permit_limit_version: int | None = None,
        owner: str | None = None,
        max_waiters: int | None = None,
        tell_when_wanted: bool = False,
        on_lost: Callable[[Loss], None] | None = None,
        on_at_risk: Callable[[], None] | None = None,
        on_wanted: Callable[[LockMode], None] | None = None,
    ) -> Generator[Lock, None, None]:
        """Acquires the lock for a ``with`` statement, and releases it at the end. Arguments: see :meth:`acquire`.

        The ``with`` statement raises :class:`LockLost` at its end if the lock was lost meanwhile, with the error of its
        body as cause. It does not interrupt the body: look at :meth:`Lock.valid` or :attr:`Lock.lost` there.
        """
        with self.acquire(
            name,
            ttl=ttl,
            wait=wait,
            holder=holder,
            metadata=metadata,
            request_id=request_id,
            min_token=min_token,
            max_hold=max_hold,
            min_hold=min_hold,
            lock_delay=lock_delay,
            shared=shared,
            semaphore=semaphore,
            permits=permits,
            permit_limit_version=permit_limit_version,
            owner=owner,
            max_waiters=max_waiters,
            tell_when_wanted=tell_when_wanted,
            on_lost=on_lost,
            on_at_risk=on_at_risk,
            on_wanted=on_wanted,
        ) as lock:
            yield lock

    def acquire(
        self,
        name: str,
        *,
        ttl: float | timedelta | None = None,
        wait: float | timedelta = 0,
        holder: str | None = None,
        metadata: Mapping[str, str] | None = None,
        request_id: str | uuid.UUID | None = None,
        min_token: int = 0,
        max_hold: float | timedelta | None = None,
        min_hold: float | timedelta | None = None,
        lock_delay: float | timedelta | None = None,
        shared: bool = False,
        semaphore: int | None = None,
        permits: int | None = None,
        permit_limit_version: int | None = None,
        owner: str | None = None,
        max_waiters: int | None = None,
        tell_when_wanted: bool = False,
        on_lost: Callable[[Loss], None] | None = None,
        on_at_risk: Callable[[], None] | None = None,
        on_wanted: Callable[[LockMode], None] | None = None,
    ) -> Lock:
        """Acquires a lock. Release it with :meth:`Lock.release`.

        Interrupted by Ctrl-C, it leaves the queue, and releases the lock if it was granted at that moment.

        Args:
            name: The name of the lock: 1 to 512 bytes without control characters.
            ttl: How long the lease lasts without a renewal, in seconds: 1 s to 24 h. Default: that of the server, 30 s
                unless it is configured otherwise. The lock of a process that dies is free after this time. At least
                three times the longest pause that the process must survive.
            wait: How long to wait for the lock, in seconds: 0 (do not wait) to 1 h.
            holder: The label for this lock, in place of the client's.
            metadata: Shown with the holder: at most 4 KiB.
            request_id: A UUID of your own for this acquire, for a program that repeats it after a crash. Never the same
                for two locks.
            min_token: The lowest acceptable token. If the store has seen a higher one than the servers grant, pass its
                highest + 1; this raises the tokens of other locks too.
            max_hold: The longest time to hold the lock, with all renewals, in seconds: at least the TTL, at most 7
                days. A bound on work that is stuck while its process goes on renewing: then the lock is lost with
                :attr:`LossReason.MAX_HOLD`. Default: no bound.
            min_hold: How long the lock stays unavailable after the grant, however the lease ends, release included, in
                seconds: 0 to 24 h. For jobs that many machines start at one time by clocks that differ: more than the
                clocks may differ, and less than the time between two starts. Default: 0, none.
            lock_delay: How long the lock stays unavailable after the end of the lease if it is not released, in
                seconds: 0 to 60. For stores that cannot compare tokens, in which a holder that lost the lock may still
                be writing. A release ends it, however late. Default: 0, none.
            shared: Shares the lock with all others that ask for it so (readers), and excludes only those that do not
                (writers). A reader never overtakes a writer that waits: a task that holds the lock and asks for it once
                more while a writer waits, waits for itself until its ``wait`` is over. Tokens rise with each grant, of
                readers too: readers that write next to each other must not be compared by the plain
                :mod:`fencepost.guards`. All servers have to know it, as they have to know ``max_hold``. With
                ``min_hold`` or ``lock_delay``, a reader that is gone keeps out writers, and no readers.
            semaphore: Takes a permit of a semaphore, of which all holders together use no more than this limit: 1 to
                1,000,000. Nobody else holds the lock beside them, and requests are served in the order in which they
                came. Holders work side by side, so no store can order them by their tokens; those of one
                :attr:`Lock.slot` it can. All servers have to know it. Not with ``shared``. With ``min_hold``
                or ``lock_delay``, the permits and the slot stay used after the lease.
            permits: How many permits of the semaphore the lock takes: 1 to ``semaphore``. They are given back together.
                Ask for few: permits stay unused until there are enough for the request that is next. Default: 1.
            permit_limit_version: The version of the limit. Raise it with each change of the limit: the highest version
                that a request has named is in force for as long as the semaphore is held or waited for, and a request
                with another limit of the same version is :class:`Refused` (``PERMIT_LIMIT_MISMATCH``). Default: 0.
            owner: A label of what acquires locks one after another, and waits for one while it holds others: a worker,
                a job, a transaction. Requests with one owner that wait for each other are a deadlock, which
                ``fencepost deadlocks`` finds. At most 128 bytes. All servers have to know it and the next two options.
            max_waiters: :class:`Contended` at once, in place of a place in the queue, if so many requests wait already:
                for work that need not be done twice, such as a build that the next one replaces.
            tell_when_wanted: Tells the lock when somebody waits whom it excludes, for holders that keep a lock while
                nobody else wants it: see :attr:`Lock.wanted`.
            on_lost: Called once if the lock is lost, in a thread of the client: of one lock one call at a time, of
                16 locks at the same time.
            on_at_risk: Called when renewals begin to fail, in a thread of the client too. The lock is still held.
            on_wanted: Called with the mode that somebody waits for, in a thread of the client, if ``tell_when_wanted``
                is set: at most once for each session that keeps the lock.

        Raises:
            Contended: the lock is not free, and ``wait`` is 0, or ``max_waiters`` wait already.
            TimedOut: the lock was not free within ``wait``.
            OutcomeUnknown: the lock may have been granted; it is being withdrawn in the background.
            Unavailable: nothing was done, try later: no server could be reached, or each one that answered said so.
            Refused: the server refused the request; its fields say why.
            LockLost: the lock was granted, but its validity was over before the answer arrived.
            ClientClosed: the client was closed, or this process was forked after it was made.
        """
        label = self._options.holder if holder is None else holder
        convert.callback(on_lost, "on_lost")
        convert.callback(on_at_risk, "on_at_risk")
        convert.on_wanted(on_wanted, tell_when_wanted)
        bounds, modes = (max_hold, min_hold, lock_delay), (shared, semaphore, permits, permit_limit_version)
        options = (*bounds, *modes, owner, max_waiters, tell_when_wanted)
        request = requests.acquire(name, ttl, wait, label, metadata, request_id, min_token, *options)
        return self._acquire(request, on_lost, on_at_risk, on_wanted)

    def _acquire(
        self,
        request: pb.AcquireRequest,
        on_lost: Callable[[Loss], None] | None = None,
        on_at_risk: Callable[[], None] | None = None,
        on_wanted: Callable[[LockMode], None] | None = None,
        campaign: Campaign | None = None,
    ) -> Lock:
        def take(acquired: Acquire) -> Lock:
            assert acquired.lease is not None
            lease, holder, end = acquired.lease, request.holder, acquired.previous_end
            told = request.tell_when_wanted
            return Lock(
                self, self._driver, lease, holder, end, on_lost, on_at_risk, tells_wanted=told, on_wanted=on_wanted
            )

        return self._driver.acquire(request, take, Pending(campaign))

    def try_acquire(
        self,
        name: str,
        *,
        ttl: float | timedelta | None = None,
        holder: str | None = None,
        metadata: Mapping[str, str] | None = None,
        max_hold: float | timedelta | None = None,
        min_hold: float | timedelta | None = None,
        lock_delay: float | timedelta | None = None,
        shared: bool = False,
        semaphore: int | None = None,
        permits: int | None = None,
        permit_limit_version: int | None = None,
        owner: str | None = None,
        tell_when_wanted: bool = False,
        on_lost: Callable[[Loss], None] | None = None,
        on_at_risk: Callable[[], None] | None = None,
        on_wanted: Callable[[LockMode], None] | None = None,
    ) -> Lock | None:
        """Acquires a lock if it is free; returns None if it is not. Arguments and errors: see :meth:`acquire`."""
        try:
            return self.acquire(
                name,
                ttl=ttl,
                holder=holder,
                metadata=metadata,
                max_hold=max_hold,
                min_hold=min_hold,
                lock_delay=lock_delay,
                shared=shared,
                semaphore=semaphore,
                permits=permits,
                permit_limit_version=permit_limit_version,
                owner=owner,
                tell_when_wanted=tell_when_wanted,
                on_lost=on_lost,
                on_at_risk=on_at_risk,
                on_wanted=on_wanted,
            )
        except Contended:
            return None

    def lead(
        self,
        name: str,
        body: Callable[[Lock], ResultT],
        *,
        ttl: float | timedelta | None = None,
        holder: str | None = None,
        metadata: Mapping[str, str] | None = None,
        max_hold: float | timedelta | None = None,
        min_hold: float | timedelta | None = None,
        lock_delay: float | timedelta | None = None,
        owner: str | None = None,
        tell_when_wanted: bool = False,
    ) -> ResultT:
        """Runs a body as the leader: of all callers with this name, one at a time.

        Campaigns, which is to wait for the lock as long as it takes; then runs ``body(lock)``, and releases the lock.
        Returns what the body returns, and raises what it raises.

        If the lock is lost, the body is not interrupted: it calls :meth:`Lock.check` before each step, or looks at
        :attr:`Lock.lost`, and ends by itself. Then the call campaigns again, whatever the body returned or raised: only
        a body that ends while it leads ends the call. Send :attr:`Lock.token`, the number of the term, with every
        write: a leader that was paused does no harm only if the store refuses lower tokens.

        What a later try may mend does not end a campaign: servers that are away, drain or refuse for the moment. It
        goes on after a pause, and the log tells of each outage once. Ctrl-C, and other exceptions of signal handlers,
        end the call in the main thread: it leaves the queue, or releases the lock after the end of the body. In other
        threads :meth:`close` ends a campaign; it releases all locks at once, so have a body that leads return before.

        Args:
            name: The name of the lock, which is the name of the election.
            body: The work of the leader, called in the thread of the call.
            ttl: How long the lead lasts without a renewal; see :meth:`acquire`. Another one can be elected so long
                after the leader's process dies.
            holder: The label for this lock, in place of the client's.
            metadata: Shown with the holder: at most 4 KiB.
            max_hold: The longest term, after which the lock is lost and others are elected; see :meth:`acquire`.
            min_hold: How long nobody else is elected after an election; see :meth:`acquire`.
            lock_delay: How long nobody is elected after a leader that did not resign; see :meth:`acquire`.
            owner: A label of what acquires several locks; see :meth:`acquire`.
            tell_when_wanted: Tells the lock when others want to lead; see :meth:`acquire`.

        Raises:
            Refused: the server refused the request, and would refuse the next one.
            Unavailable: no server can be called until somebody changes an address or a certificate.
            ClientClosed: the client was closed, or this process was forked after it was made.
        """
        convert.body(body)
        label = self._options.holder if holder is None else holder
        campaign = Campaign(convert.text(name, "name"), self._driver)
        bounds, told = (max_hold, min_hold, lock_delay), tell_when_wanted

        def acquire() -> Lock:
            request = requests.acquire(
                name, ttl, campaign.wait, label, metadata, None, 0, *bounds, owner=owner, tell_when_wanted=told
            )
            return self._acquire(request, campaign=campaign)

        return lead(acquire, campaign, body)

    def close(self, timeout: float = 5.0) -> None:
        """Ends all waits with :class:`ClientClosed`, releases all locks, and closes the connections. Waits at most
        ``timeout`` seconds for the servers to confirm that.
        """
        if self._driver.forked or self._driver.is_over:
            return
        self._driver.shut(convert.timeout(timeout))
        self._calls.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<fencepost.Client {','.join(map(str, self._options.servers))}>"
