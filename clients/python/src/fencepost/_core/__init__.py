"""The rules of a client, without I/O: no sockets, no threads, no event loop.

The drivers in ``fencepost`` (threads) and ``fencepost.aio`` (asyncio) feed the engine with messages and the time, and
do what it asks for. Calls into it must not overlap: the threads hold one lock, the event loop is one thread.
"""
