"""Events → sparse counts, and every product the solvers need of them, without ever densifying."""

from tripheno.tensor.count_tensor import CountTensor, pooled

__all__ = ["CountTensor", "pooled"]
