"""A call that failed, and what that says about its effect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2 as details_pb2  # pyright: ignore[reportMissingTypeStubs]
from google.rpc.code_pb2 import Code

from fencepost._facts import ERROR_DOMAIN, LAST_ANSWER, NOT_FENCEPOST
from fencepost.errors import FencepostError, FieldViolation, OutcomeUnknown, Refused, Unavailable
from fencepost.v1 import lock_pb2 as pb

# A call that ended so may have been applied, unless it was never sent. Repeat it with the same ids.
_TRANSIENT = frozenset({"UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED"})

# The reasons of UNAVAILABLE with which a server says that it did nothing.
_NOTHING_DONE = frozenset({"STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "REQUEST_TOO_SLOW", "DRAINING"})

# The reasons with which a server has no room for a stream now.
_OVER_QUOTA = "QUOTA_EXCEEDED"
_NO_ROOM = frozenset({"SERVER_FULL", "WATCHERS_FULL", _OVER_QUOTA})

# A session that ends so, before any message, would end so again. Other codes are those of a connection that broke.
_FINAL = frozenset({"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "FAILED_PRECONDITION"})


@dataclass(frozen=True)
class Failure:
    """The status of a failed call or operation."""

    code: str
    message: str
    reason: str = ""
    retry_delay: float = 0.0
    violations: tuple[FieldViolation, ...] = ()
    sent: bool = True
    """Whether a server may have received it."""
    cause: BaseException | None = None
    """The error of this process, if the call was not made."""
    permanent: bool = False
    """Whether this server cannot be called until somebody changes an address or a certificate."""
    answer: Failure | None = None
    """What a server answered to an earlier transmission, if this one got no answer."""

    def after(self, answer: Failure | None) -> Failure:
        """Returns the same failure, of a call of which an earlier transmission was answered so."""
        # If several servers were tried, the message may have it.
        is_told = answer is None or self.reason or f"; {answer.message}; " in f"; {self.message}; "
        return self if is_told else replace(self, answer=answer)

    @property
    def is_transient(self) -> bool:
        """Whether a retry may succeed."""
        return self.code in _TRANSIENT and not self.permanent

    @property
    def is_final(self) -> bool:
        """Whether the server, or this client's own set-up, refuses sessions."""
        return self.code in _FINAL

    @property
    def is_outcome_unknown(self) -> bool:
        """Whether the server may have applied the call."""
        return self.sent and self.is_transient and not self.did_nothing

    @property
    def did_nothing(self) -> bool:
        """Whether the server says that it did nothing, although a retry may succeed."""
        return self.code == "UNAVAILABLE" and self.reason in _NOTHING_DONE

    @property
    def is_broken(self) -> bool:
        """Whether a call ended without an answer: a server gives a reason."""
        return self.code in _TRANSIENT and not self.reason and not self.permanent

    @property
    def is_expired(self) -> bool:
        """Whether only the credentials have expired. A stream goes on with new ones."""
        return self.reason == "CREDENTIALS_EXPIRED"

    @property
    def is_session_full(self) -> bool:
        return self.reason == "SESSION_FULL"

    @property
    def is_over_quota(self) -> bool:
        """Whether the caller has used up its quota on the server, which did nothing. Each server has as much for it, so
        the call is not repeated on another one: that would only spread what is too much.
        """
        return self.reason == _OVER_QUOTA

    @property
    def is_no_room(self) -> bool:
        """Whether a server that refuses a stream so may open one later."""
        return self.reason in _NO_ROOM

    @property
    def is_request_ended(self) -> bool:
        return self.reason == "REQUEST_ENDED"

    @property
    def is_draining(self) -> bool:
        return self.reason == "DRAINING"

    def error(self) -> FencepostError:
        """Returns the error of a call that failed so, and is not retried."""
        message, cause = self.message, self.cause
        if self.answer is not None:
            answer = f"{self.answer.code} ({self.answer.reason}): {self.answer.message}"
            message, cause = f"{message}; {LAST_ANSWER.replace('{}', answer)}", self.answer.error()
        if self.code in _TRANSIENT and not self.is_outcome_unknown:
            text = message if self.did_nothing else f"no server could be reached: {message}"
            unavailable = Unavailable(text, self.reason, self.permanent)
            unavailable.__cause__ = cause
            return unavailable
        refused = Refused(self.code, self.reason, message, self.violations, self.retry_delay or None)
        refused.__cause__ = cause
        return OutcomeUnknown(refused) if self.is_transient else refused


def unsent(message: str) -> Failure:
    """Returns the failure of something that no server received."""
    return Failure("UNAVAILABLE", message, sent=False)


def unsuitable(address: object, text: str) -> Failure:
    """Returns the failure of a server that cannot be called until somebody changes its address or a certificate."""
    return Failure("UNAVAILABLE", f"{address}{text}", sent=False, permanent=True)


def not_fencepost(address: object) -> Failure:
    """Returns the failure of a server that answered UNIMPLEMENTED."""
    return Failure("UNIMPLEMENTED", f"{address} {NOT_FENCEPOST}", sent=False, permanent=True)


def no_token(why: str) -> Failure:
    """Returns the failure of a call without a bearer token. The same call would not be better; the next one may be."""
    return Failure("UNAUTHENTICATED", f"no bearer token: {why}", sent=False)


def of_preparation(error: Refused) -> Failure:
    """Returns the failure of a call that could not be made: a file of TLS or the token is missing."""
    return Failure(error.code, error.message, sent=False, cause=error.__cause__)


def from_operation(error: pb.OperationError) -> Failure:
    """Reads the error of one operation of a session."""
    return from_status(_code_name(error.code), error.message, error.details)


def from_status(code: str, message: str, details: Iterable[Any]) -> Failure:
    """Reads the fields of a ``google.rpc.Status``."""
    reason, delay, violations = "", 0.0, []
    for detail in details:
        info, retry, bad = details_pb2.ErrorInfo(), details_pb2.RetryInfo(), details_pb2.BadRequest()
        if detail.Unpack(info):
            reason = info.reason if info.domain == ERROR_DOMAIN else reason
        elif detail.Unpack(retry):
            delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
        elif detail.Unpack(bad):
            violations = [FieldViolation(it.field, it.description) for it in bad.field_violations]
    return Failure(code, message, reason, delay, tuple(violations))


def _code_name(code: int) -> str:
    return str(Code.Name(code)) if code in Code.values() else "UNKNOWN"
