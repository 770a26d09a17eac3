"""The sessions of the driver with threads."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import grpc

from fencepost._channel import SESSION, Metadata, Method, RequestT, ResponseT, session_failure, store_id
from fencepost._core import failure
from fencepost._core.events import write
from fencepost._core.session import Session
from fencepost._dial import bearer, call_failure, open_channel
from fencepost.errors import Refused

if TYPE_CHECKING:
    from fencepost._threads import Driver


class Stream:
    """The connection and the reading thread of one session."""

    def __init__(self, driver: Driver, session: Session) -> None:
        self.wanted = driver.new_condition()
        """Notified when there may be something to send."""
        self._driver = driver
        self._session = session
        self.call: grpc.Call | None = None
        self.channel: grpc.Channel | None = None
        """The connection, once it is made; closed at the end of the session."""

    def start(self) -> None:
        threading.Thread(target=self._run, name="fencepost-session", daemon=True).start()

    def cancel(self) -> None:
        """Ends the stream: both threads notice. Called under the lock."""
        self.wanted.notify()
        if self.call is not None:
            self.call.cancel()

    def unary(
        self, method: Method[RequestT, ResponseT], request: RequestT, timeout: float, metadata: Metadata
    ) -> grpc.Future[ResponseT]:
        """Starts a call on the connection of the session. Raises ValueError if that is closed."""
        if self.channel is None:
            raise ValueError("the connection is not open")
        start = self.channel.unary_unary(method.path, method.serialize, method.deserialize)
        return start.future(request, timeout=timeout, metadata=metadata)

    def _run(self) -> None:
        why = failure.unsent("the connection could not be made")
        try:
            why = self._read()
        except Refused as error:
            why = failure.of_preparation(error)
        except Exception as error:  # noqa: BLE001 - reported, and the next session may do better
            write(logging.ERROR, "the session failed", trace=True)
            why = failure.Failure("UNAVAILABLE", repr(error))
        finally:
            self._driver.ended(self._session, why)
        # The session has ended, and the next one may be open already.
        if self._session.puzzle is not None:
            found = self._driver.looks.look(self._session.server, self._session.puzzle)
            if found is not None:
                self._driver.diagnosed(self._session, found)

    def _read(self) -> failure.Failure:
        """Reads the session. Returns why it ended."""
        session, driver = self._session, self._driver
        address = driver.options.servers[session.server]
        # Asked first: the time that its function takes is not that of the server.
        metadata = bearer(driver.options)
        if not driver.connects(session):
            return failure.unsent("the session was closed")
        with open_channel(driver.options, address) as channel:
            self.channel = channel
            start = channel.stream_stream(SESSION.path, SESSION.serialize, SESSION.deserialize)
            call = start(driver.messages(session, self.wanted), metadata=metadata)
            if not driver.started(self, session, call):
                return failure.unsent("the session was closed")
            # Waits for the server's headers. Channel.subscribe would not: its thread may outlive the channel, and fails
            # then with a traceback.
            headers = call.initial_metadata()
            if call.is_active():
                driver.connected(session, store_id(headers))
            try:
                for response in call:
                    driver.received(session, response)
            except grpc.RpcError as error:
                return session_failure(session, address, call_failure(error))
        return failure.Failure("UNAVAILABLE", "the server ended the session")
