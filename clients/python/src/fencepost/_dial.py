"""Connections and calls of the client with threads."""

from __future__ import annotations

import grpc

from fencepost._channel import Metadata, channel_options, credentials, rpc_failure
from fencepost._core import failure
from fencepost._core.address import Address
from fencepost._core.options import Options
from fencepost.errors import Refused


def open_channel(options: Options, address: Address) -> grpc.Channel:
    """Opens a connection to a server. Raises Refused if a file of TLS cannot be read."""
    secret = credentials(options, address)
    if secret is None:
        return grpc.insecure_channel(address.target, channel_options(address))
    return grpc.secure_channel(address.target, secret, channel_options(address))


def bearer(options: Options) -> Metadata:
    """Returns the metadata of one call. Raises Refused if there is no token."""
    token = options.token
    if token is None:
        return ()
    try:
        value = token() if callable(token) else token
    except Exception as error:
        raise options.no_token(error) from error
    return options.authorization(value)


def call_failure(error: grpc.RpcError | Refused) -> failure.Failure:
    """Reads the error of a call, or of its preparation. Drops the traceback of the error of a call."""
    if isinstance(error, Refused):
        return failure.of_preparation(error)
    assert isinstance(error, grpc.Call)
    # A stream raises itself: it has the traceback, whose frames have the stream. Left to the garbage collector, this
    # cycle lasts until the interpreter ends. Then the stream's __del__ takes a lock, and waits forever if a thread of
    # gRPC had it when the interpreter stopped all daemons.
    error.__traceback__ = None
    return rpc_failure(error.code(), error.details(), error.trailing_metadata())
