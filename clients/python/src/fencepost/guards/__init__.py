"""Guards: a store refuses the late writes of a holder that lost its lock.

One module for each driver: ``psycopg``, ``asyncpg``, ``sqlalchemy``, ``pymysql``, ``mysql_connector``, ``sqlite`` and
``redis``. In the transaction of the write, raise the fence first, then read, then write:

    from fencepost.guards import psycopg as guard

    guard.create_table(connection)  # once
    with connection.transaction():
        guard.raise_fence(connection, lock)
        connection.execute("UPDATE orders SET state = 'paid' WHERE id = 42")

``raise_fence`` keeps the highest token of each lock in the table ``fencepost_fences``. For a lower token it raises
:class:`fencepost.StaleToken`, and the transaction is rolled back. An equal token passes only with the same grant id.
All writers of the data that the lock protects have to use the guard.

One permit of a semaphore has a fence of its own for each slot, which :func:`fence_name` names. Several permits have
none: the guards refuse them.
"""

from __future__ import annotations

from fencepost.guards._fence import Held, fence_name

__all__ = ["Held", "fence_name"]
