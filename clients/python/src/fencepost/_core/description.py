"""The description of a lease that is held: what others see of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fencepost._core.change import Change
from fencepost._core.convert import loss
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.port import Answer
from fencepost.errors import FencepostError
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost._core.engine import Engine

_Outcome = pb.DescribeResponse


class Description(Change):
    """Replaces the metadata of a lease, and its label if one is given. The descriptions of a lease are numbered, so
    that a late copy of an older one changes nothing.
    """

    def __init__(
        self, engine: Engine, lease: Lease, metadata: Mapping[str, str], holder: str | None, on_done: Callable[[], None]
    ) -> None:
        super().__init__(engine, lease, on_done)
        self.number = 0
        """The number of the description that others see."""
        self._metadata = metadata
        self._holder = holder

    def _request(self) -> pb.DescribeRequest:
        lease = self._lease
        if lease.description is not None:
            lease.description += 1
        return pb.DescribeRequest(
            lock_name=lease.name,
            lease_id=lease.lease_id,
            metadata=self._metadata,
            holder=self._holder,
            number=lease.description or 0,
        )

    def _answered(self, answer: Answer) -> FencepostError | None:
        assert isinstance(answer, pb.DescribeResponse)
        if answer.outcome == _Outcome.OUTCOME_LOST:
            self._engine.lose(self._lease, loss(answer.end, answer.successor_token))
            return None
        if answer.outcome not in (_Outcome.OUTCOME_DESCRIBED, _Outcome.OUTCOME_OUTDATED):
            return Failure("INTERNAL", "unknown answer from the server").error()
        self.number = self._lease.description = answer.number
        if answer.outcome == _Outcome.OUTCOME_OUTDATED:
            return FencepostError(
                f"{self._lease.name} was described meanwhile by another process that has its lease (description "
                f"{answer.number}): nothing was changed, a repeat would replace that one"
            )
        return None
