"""One hospital as several shards of its own: every shard computes on its own patients.

What a hospital contributes is a sum over patients, so it is the sum over its shards; towards the
other hospitals it stays one member and masks once. Patients' rows stay with their shard, and the
hospital holds their name (`ShardRows`). A function marked with :func:`at_shards` runs where the
patients are; anything else is computed in the hospital's own process, from the same parts.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypeVar

import numpy as np

from tripheno.errors import SettingsError
from tripheno.tensor.part_files import part_bytes
from tripheno.tensor.parts import FileRows, PatientParts, parts_joined
from tripheno.tensor.shard_messages import packed, unpacked

if TYPE_CHECKING:
    from tripheno.tensor.count_tensor import CountTensor

Gives = Literal["sum", "rows", "patients"]
"""A result is added up over shards; or rows that stay there; or a value per patient, brought."""

P = ParamSpec("P")
R = TypeVar("R")
FUNCTIONS: dict[str, Callable[..., Any]] = {}


class Engine(Protocol):
    """Where shards live. Bytes go to every shard and bytes come back, in the shards' order."""

    number: int

    def ask(self, requests: Sequence[bytes]) -> list[bytes]:
        """One request for each shard, answered by all of them."""

    def close(self) -> None:
        """The shards end."""


class _Name:
    """Goes with the last who holds what it stands for."""


class ShardRows:
    """Patients × columns that lie at the shards; here are only their name and their scale."""

    def __init__(
        self, pool: Shards, cuts: np.ndarray, key: int, columns: int, *, name: _Name | None = None
    ) -> None:
        self.pool, self.cuts, self.key = pool, cuts, key
        self.shape = (int(cuts[-1]), columns)
        self.scale: np.ndarray | None = None
        self._name = name or _Name()  # the rows are forgotten with the last who holds it
        if name is None:
            weakref.finalize(self._name, pool.forgotten.append, key)

    def __len__(self) -> int:
        return self.shape[0]

    def __mul__(self, scale: np.ndarray) -> ShardRows:
        """The same rows, every column so many times as long."""
        found = ShardRows(self.pool, self.cuts, self.key, self.shape[1], name=self._name)
        found.scale = scale if self.scale is None else self.scale * scale
        return found

    def __getitem__(self, at: Any) -> np.ndarray:
        return np.asarray(np.asarray(self)[at])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        del copy
        found = np.concatenate(self.pool.ask("rows", [{"rows": self.named}] * self.pool.number))
        return found.astype(dtype or np.float64, copy=False)

    @property
    def named(self) -> dict[str, Any]:
        """What a shard finds them by."""
        return {"rows": self.key, "scale": self.scale}


class Shards:
    """The shards of the hospitals that live in this process."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.number = engine, engine.number
        self.forgotten: list[int] = []  # rows that nobody names any more
        self._keys = count(1)

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def place(self, tensor: CountTensor) -> CountTensor:
        """The tensor with its patients dealt out, in their order and about as many cells each."""
        if tensor.patients < self.number:
            raise SettingsError(
                f"{self.number} shards for {tensor.patients} patients", fix="take fewer shards"
            )
        starts = tensor.cells.starts
        wanted = np.searchsorted(starts, np.arange(1, self.number) * (starts[-1] / self.number))
        inner = [
            int(np.clip(cut, n + 1, tensor.patients - self.number + n + 1))
            for n, cut in enumerate(wanted)
        ]
        cuts = np.maximum.accumulate(np.array([0, *inner, tensor.patients]))
        cuts[1:-1] = np.maximum(cuts[1:-1], np.arange(1, self.number))
        plain = tensor.with_weights(None)
        own = [plain.select_patients(np.arange(a, b)).cells for a, b in pairwise(cuts)]
        key = next(self._keys)
        self.ask("begin", [{"key": key, "modes": list(tensor.modes)}] * self.number)
        for n, cells in enumerate(own):
            mapped = isinstance(cells, PatientParts) and cells.folder is not None
            parts = cells.parts if isinstance(cells, PatientParts) else (cells,)
            for part in parts:
                data = np.frombuffer(part_bytes(part), dtype=np.uint8)
                self._ask_one(n, "part", {"key": key, "part": data, "mapped": mapped})
        whole = parts_joined(own)
        cells = PatientShards(
            whole.parts, whole.files, whole.folder, None, pool=self, key=key, cuts=cuts
        )
        weakref.finalize(cells.name, self.forgotten.append, key)
        return replace(tensor, cells=cells.with_weights(tensor.cells.weights))

    def ask(self, call: str, what: Sequence[Mapping[str, Any]]) -> list[Any]:
        """One request for every shard, and their answers."""
        gone = [self.forgotten.pop() for _ in range(len(self.forgotten))]
        asked = [packed({"call": call, "forget": gone, **one}) for one in what]
        return [unpacked(answer) for answer in self.engine.ask(asked)]

    def _ask_one(self, n: int, call: str, what: Mapping[str, Any]) -> None:
        self.ask(call, [what if shard == n else {"call": "pass"} for shard in range(self.number)])

    def scattered(self, cuts: np.ndarray, rows: np.ndarray) -> ShardRows:
        """Rows of this process brought to the shards, to be asked about more than once."""
        key = next(self._keys)
        self.ask("keep", [{"key": key, "rows": rows[a:b]} for a, b in pairwise(cuts)])
        return ShardRows(self, cuts, key, 1 if rows.ndim == 1 else rows.shape[1])

    def call(
        self,
        cells: PatientShards,
        name: str,
        gives: tuple[Gives, ...],
        shared: Mapping[str, Any],
        rows: Mapping[str, Any],
    ) -> tuple[Any, ...]:
        """``name`` for the patients of every shard; what is in ``rows`` is cut between patients."""
        keys = next(self._keys)
        own = [
            {
                "tensor": cells.key, "weights": cells.weights_at_shards, "function": name,
                "shared": dict(shared), "gives": gives, "key": keys,
                "rows": {name: _cut(value, a, b) for name, value in rows.items()},
            }
            for a, b in pairwise(cells.cuts)
        ]  # fmt: skip
        answers = self.ask("function", own)
        return tuple(
            self._joined(kind, [one[n] for one in answers], cells.cuts)
            for n, kind in enumerate(gives)
        )

    def _joined(self, kind: Gives, parts: list[Any], cuts: np.ndarray) -> Any:
        if kind == "sum":
            return sum(parts[1:], start=parts[0])
        if kind == "patients":
            return np.concatenate(parts)
        first = parts[0]  # every shard keeps its own rows under the same names
        if isinstance(first[0], list):
            return [ShardRows(self, cuts, key, columns) for key, columns in first]
        return ShardRows(self, cuts, *first)


def _cut(value: Any, first: int, last: int) -> Any:
    """A shard's part of what belongs to patients."""
    if value is None:
        return None
    if isinstance(value, ShardRows):
        return value.named
    if isinstance(value, np.ndarray | FileRows):
        return value[first:last]
    return [_cut(one, first, last) for one in value]


@dataclass(frozen=True, kw_only=True)
class PatientShards(PatientParts):
    """Parts whose products are made at the shards; answers what one piece answers."""

    pool: Shards
    key: int
    cuts: np.ndarray  # the patient each shard begins with
    name: _Name = field(default_factory=_Name)

    @cached_property
    def weights_kept(self) -> ShardRows | None:
        """The weights at the shards."""
        return None if self.weights is None else self.pool.scattered(self.cuts, self.weights)

    @property
    def weights_at_shards(self) -> int | None:
        """What the shards find the weights by."""
        return None if self.weights_kept is None else self.weights_kept.key

    @cached_property
    def squared_norm(self) -> float:
        """‖O‖²."""
        (found,) = self.pool.call(self, "squared_norm", ("sum",), {}, {})
        return float(found)

    def patient_product(self, features: Sequence[np.ndarray]) -> np.ndarray:
        """MTTKRP of the patient mode, O₍₁₎Π."""
        shared = {"features": features}
        (found,) = self.pool.call(self, "patient_product", ("patients",), shared, {})
        return np.asarray(found)

    def update_patients(
        self,
        features: Sequence[np.ndarray],
        gram: np.ndarray,
        *,
        nonnegative: bool,
        guess: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The patient factor that fits best, and the MTTKRP of the first feature mode."""
        shared = {"features": features, "gram": gram, "nonnegative": nonnegative}
        rows, total = self.pool.call(
            self, "update_patients", ("rows", "sum"), shared, {"guess": guess}
        )
        return rows, total

    def feature_product(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray, mode: int
    ) -> np.ndarray:
        """MTTKRP of a feature mode, O₍ₙ₎Π; mode 0 is the first feature mode."""
        shared, rows = {"features": features, "mode": mode}, {"patient_factor": patient_factor}
        (found,) = self.pool.call(self, "feature_product", ("sum",), shared, rows)
        return np.asarray(found)

    def at_cells(
        self, features: Sequence[np.ndarray], patient_factor: np.ndarray
    ) -> tuple[float, float]:
        """Σ w_i (model − count)² and Σ w_i · model · count over the cells that hold a count."""
        shared, rows = {"features": features}, {"patient_factor": patient_factor}
        squared, inner = self.pool.call(self, "at_cells", ("sum", "sum"), shared, rows)
        return squared, inner

    def patient_gram(self, patient_factor: np.ndarray) -> np.ndarray:
        """AᵀWA."""
        rows = {"patient_factor": patient_factor}
        (found,) = self.pool.call(self, "patient_gram", ("sum",), {}, rows)
        return np.asarray(found)


def at_shards(
    *gives: Gives, rows: tuple[str, ...] = ()
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Mark a function of a tensor that is a sum over patients, or gives a row for each of them.

    ``gives`` says what becomes of each result; ``rows`` names the arguments that hold one row per
    patient. Where the tensor has shards, each of them calls the function on its own patients.
    """

    def marked(function: Callable[P, R]) -> Callable[P, R]:
        name = f"{function.__module__}:{function.__qualname__}"
        FUNCTIONS[name] = function
        signature = inspect.signature(function)

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            given = signature.bind(*args, **kwargs).arguments
            tensor: Any = given.pop("tensor")
            if not isinstance(tensor.cells, PatientShards):
                return function(*args, **kwargs)
            own = {key: given.pop(key) for key in rows if key in given}
            found: Any = tensor.cells.pool.call(tensor.cells, name, gives, given, own)
            only: R = found[0] if len(gives) == 1 else found
            return only

        return called

    return marked
