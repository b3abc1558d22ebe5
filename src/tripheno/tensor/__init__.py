"""Events → sparse counts, and every product the solvers need of them, without ever densifying."""

from tripheno.compiled import find_a_place

find_a_place()  # before the first compiled loop is read

from tripheno.tensor.count_tensor import CountTensor, pooled  # noqa: E402

__all__ = ["CountTensor", "pooled"]
