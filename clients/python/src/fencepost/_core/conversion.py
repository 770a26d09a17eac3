"""The conversion of a lease that is held: to shared, or to exclusive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost._core.change import Change
from fencepost._core.convert import loss
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.port import Answer
from fencepost.errors import FencepostError
from fencepost.types import LockMode
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost._core.engine import Engine

_Outcome = pb.ConvertResponse

_MODES = {LockMode.SHARED: pb.LOCK_MODE_SHARED, LockMode.EXCLUSIVE: pb.LOCK_MODE_EXCLUSIVE}


class Conversion(Change):
    """Gives a lease another mode. A repeat whose first copy took effect is answered with the token of now."""

    def __init__(self, engine: Engine, lease: Lease, mode: LockMode, on_done: Callable[[], None]) -> None:
        super().__init__(engine, lease, on_done)
        self.converted = False
        """Whether the lease has the mode. If not, others hold the lock too."""
        self._mode = mode

    def _request(self) -> pb.ConvertRequest:
        lease = self._lease
        return pb.ConvertRequest(
            lock_name=lease.name, lease_id=lease.lease_id, fencing_token=lease.token, mode=_MODES[self._mode]
        )

    def _answered(self, answer: Answer) -> FencepostError | None:
        assert isinstance(answer, pb.ConvertResponse)
        if answer.outcome == _Outcome.OUTCOME_CONVERTED:
            # The token first: a thread that finds the lease exclusive has the token of that.
            self._lease.token = answer.fencing_token
            self._lease.mode = self._mode
            self.converted = True
        elif answer.outcome == _Outcome.OUTCOME_LOST:
            self._engine.lose(self._lease, loss(answer.end, answer.successor_token))
        elif answer.outcome != _Outcome.OUTCOME_CONTENDED:
            return Failure("INTERNAL", "unknown answer from the server").error()
        return None
