"""The same iteration, or the same join, by the tools one would otherwise take."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix

from tripheno.tensor.count_tensor import CountTensor

JOIN = """
select m.patient, m.code, l.code, count(*) as value
from (select distinct patient, "window", code from events where mode = ?) as m
join (select distinct patient, "window", code from events where mode = ?) as l
using (patient, "window")
group by all
"""


def scipy_fibres(
    tensor: CountTensor, features: Sequence[np.ndarray], gram: np.ndarray
) -> Callable[[], None]:
    """One iteration over fibres (patient, first code) kept as a CSR matrix."""
    coordinates, values = tensor.coordinates()
    patient, row, column = coordinates.T
    new = np.ones(len(values), dtype=bool)
    new[1:] = (patient[1:] != patient[:-1]) | (row[1:] != row[:-1])
    begins = np.flatnonzero(new)
    fibres = csr_matrix(
        (values.astype(np.float64), column, np.append(begins, len(values))),
        shape=(len(begins), tensor.shape[2]),
    )
    patient, row = patient[begins], row[begins]
    ones, at = np.ones(len(begins)), np.arange(len(begins))
    by_patient = csr_matrix((ones, (patient, at)), shape=(tensor.patients, len(begins)))
    by_row = csr_matrix((ones, (row, at)), shape=(tensor.shape[1], len(begins)))
    across = fibres.T.tocsr()
    first, second = features
    inverse = np.linalg.inv(gram)

    def iteration() -> None:
        product = fibres @ second
        patients = (by_patient @ (first[row] * product)) @ inverse
        by_row @ (patients[patient] * product)
        across @ (patients[patient] * first[row])

    return iteration


def pyttb_iteration(
    tensor: CountTensor, features: Sequence[np.ndarray], iterations: int = 1
) -> Callable[[], None] | None:
    """Pyttb's ``cp_als`` on the same cells from the same start, or None without pyttb."""
    try:
        pyttb: Any = import_module("pyttb")  # its types hide what it exports
    except ImportError:
        return None
    indices, values = tensor.coordinates()
    sparse = pyttb.sptensor(indices, values.astype(float)[:, None], tensor.shape)
    patients = np.random.default_rng(0).random((tensor.patients, features[0].shape[1]))
    start = pyttb.ktensor([patients, *(factor.copy() for factor in features)])

    def iteration() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pyttb.cp_als(sparse, features[0].shape[1], maxiters=iterations, init=start, printitn=0)

    return iteration


def tensorly_iteration(tensor: CountTensor, rank: int) -> Callable[[], None] | None:
    """TensorLy's ``parafac`` on the dense array: only for a size that it can bear."""
    try:
        from tensorly.decomposition import parafac  # noqa: PLC0415
    except ImportError:
        return None
    dense = tensor.to_tensorly()

    def iteration() -> None:
        parafac(dense, rank, n_iter_max=1, init="random", random_state=0, tol=0)

    return iteration


def duckdb_join(events: pa.Table, modes: tuple[str, str]) -> Callable[[], None] | None:
    """Count the pairs that share a visit with one SQL statement, or None without DuckDB."""
    try:
        import duckdb  # noqa: PLC0415
    except ImportError:
        return None

    def join() -> None:
        with duckdb.connect() as connection:
            connection.execute("set threads to 2")
            connection.register("events", events)
            connection.execute(f"create table cells as {JOIN}", list(modes))

    return join
