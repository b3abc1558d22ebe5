"""Shards as actors of a Ray cluster, one hospital over several of its own machines.

The cluster of ``RAY_ADDRESS`` is joined; without one a cluster of this machine is started. What
goes to an actor and back are the same bytes as between processes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tripheno.errors import MissingExtra, ShardLost
from tripheno.tensor.shard import Shard
from tripheno.tensor.shard_processes import check_answer
from tripheno.tensor.threads import limited_to, one_blas_thread


class RayActor:
    """One shard, answering on one thread."""

    def __init__(self) -> None:
        self._shard = Shard()

    def answer(self, request: bytes) -> bytes:
        """What the hospital's process asked for."""
        with limited_to(1), one_blas_thread():
            return self._shard.answer(request)


class RayShards:
    """An actor for every shard; Ray chooses their machines."""

    def __init__(self, number: int) -> None:
        try:
            import ray  # noqa: PLC0415  an extra
        except ImportError:
            raise MissingExtra("ray is not installed", fix="pip install 'tripheno[ray]'") from None
        self.number, self._ray = number, ray
        self._began = not ray.is_initialized()
        if self._began:
            ray.init(include_dashboard=False, log_to_driver=False)
        kind = ray.remote(num_cpus=1)(RayActor)
        self._actors = [kind.remote() for _ in range(number)]

    def ask(self, requests: Sequence[bytes]) -> list[bytes]:
        """All work at once."""
        pairs = zip(self._actors, requests, strict=True)
        asked = [actor.answer.remote(request) for actor, request in pairs]
        answers = []
        for n, one in enumerate(asked):
            try:
                answers.append(self._ray.get(one))
            except self._ray.exceptions.RayError as fault:
                raise ShardLost(
                    f"shard {n + 1} of {self.number} ended", why=type(fault).__name__
                ) from None
        for n, answer in enumerate(answers):
            check_answer(answer, n, self.number)
        return answers

    def close(self) -> None:
        """The actors end; a cluster that was started here ends with them."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._began:
            self._ray.shutdown()
