"""Machine vectors for the kernels: the few words numba lacks to keep a small product in registers.

A *vector* is one register: four float64 or eight float32. A *strip* is one, two or three vectors
side by side, a *tile* four such strips, so that a pass over a panel of four codes keeps all its
sums in registers; a *width* is a tuple as long as a strip has vectors. Arrays are flat. Each word
becomes a few instructions; none checks bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

word: Any = intrinsic  # to a type checker its arguments are those of the caller, not of the maker

BYTES = 32  # of a register that every 64-bit machine of the last ten years can multiply
ROWS = 4  # of a tile: 4 rows × 3 vectors + 3 operands + 1 spread count fill 16 registers
WIDEST = 3  # vectors in a strip


class Vector(types.Type):
    """The type of one register full of numbers."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.lanes = BYTES * 8 // dtype.bitwidth
        super().__init__(name=f"Vector({dtype} × {self.lanes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector) -> None:
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.lanes))


def pointer_code(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """The address of element ``index`` of a contiguous array, seen as a vector's."""
    data = context.make_array(kind)(context, builder, array).data
    vector = context.get_value_type(Vector(kind.dtype))
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def stepped(builder: Any, index: Any, by: int) -> Any:
    """Index + by."""
    return builder.add(index, ir.Constant(index.type, by))


def load_code(builder: Any, kind: Any, pointer: Any) -> Any:
    """The vector at an address; no more aligned than its numbers."""
    return builder.load(pointer, align=kind.dtype.bitwidth // 8)


def store_code(builder: Any, kind: Any, vector: Any, pointer: Any) -> None:
    """A vector to an address."""
    builder.store(vector, pointer, align=kind.dtype.bitwidth // 8)


def spread_code(builder: Any, number: Any, vector: Any) -> Any:
    """The same number in every lane."""
    blank = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(blank, number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None)
    return builder.shuffle_vector(one, blank, zeros)


def fma_code(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """A · b + c, rounded once."""
    vector = a.type
    name = f"llvm.fma.v{vector.count}f{BYTES * 8 // vector.count}"
    kind = ir.FunctionType(vector, [vector] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [a, b, c])


def _counts(context: Any, builder: Any, kinds: Any, table: Any, data: Any, at: Any) -> list[Any]:
    """Four counts of a panel, each spread over a vector; looking a byte up beats converting it."""
    table_kind, data_kind = kinds
    numbers = context.make_array(table_kind)(context, builder, table).data
    raw = context.make_array(data_kind)(context, builder, data).data
    vector = context.get_value_type(Vector(table_kind.dtype))
    spread = []
    for row in range(ROWS):
        byte = builder.load(builder.gep(raw, [stepped(builder, at, row)]))
        number = builder.load(builder.gep(numbers, [builder.zext(byte, at.type)]))
        spread.append(spread_code(builder, number, vector))
    return spread


@word
def load(typing: Any, array: Any, at: Any) -> Any:
    """The vector array[at:]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        return load_code(builder, kind, pointer_code(context, builder, kind, *arguments))

    return Vector(array.dtype)(array, at), code


@word
def store(typing: Any, vector: Any, array: Any, at: Any) -> Any:
    """array[at:] = vector."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector_, array_, at_ = arguments
        kind = signature.args[1]
        store_code(builder, kind, vector_, pointer_code(context, builder, kind, array_, at_))
        return context.get_dummy_value()

    return types.void(vector, array, at), code


@word
def spread(typing: Any, number: Any) -> Any:
    """One number in every lane."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        return spread_code(builder, arguments[0], vector)

    return Vector(number)(number), code


@word
def fma(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """A · b + c, rounded once."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        return fma_code(builder, *arguments)

    return a(a, b, c), code


@word
def lane_sum(typing: Any, vector: Any) -> Any:
    """The lanes added up, first to last."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context
        lanes = [
            builder.extract_element(arguments[0], ir.Constant(ir.IntType(32), lane))
            for lane in range(signature.args[0].lanes)
        ]
        total = lanes[0]
        for lane in lanes[1:]:
            total = builder.fadd(total, lane)
        return total

    return vector.dtype(vector), code


@word
def four_counts(typing: Any, data: Any, at: Any) -> Any:
    """Four bytes in a row as one vector of float64."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data_, at_ = arguments
        raw = context.make_array(signature.args[0])(context, builder, data_).data
        four = ir.VectorType(ir.IntType(8), ROWS).as_pointer()
        numbers = builder.load(builder.bitcast(builder.gep(raw, [at_]), four), align=1)
        return builder.uitofp(numbers, context.get_value_type(signature.return_type))

    return Vector(types.float64)(data, at), code


@word
def where_positive(typing: Any, condition: Any, vector: Any) -> Any:
    """The lanes of a vector in which another one is positive, zero elsewhere."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del context, signature
        condition_, vector_ = arguments
        zero = ir.Constant(vector_.type, None)
        return builder.select(builder.fcmp_ordered(">", condition_, zero), vector_, zero)

    return vector(condition, vector), code


# ── tiles ─────────────────────────────────────────────────────────────────────────────────────


@word
def empty_tile(typing: Any, like: Any, width: Any) -> Any:
    """Four rows of zeros, for numbers like those of an array."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del arguments
        tile = signature.return_type
        zero = ir.Constant(context.get_value_type(tile.dtype), None)
        return context.make_tuple(builder, tile, [zero] * tile.count)

    return types.UniTuple(Vector(like.dtype), ROWS * len(width))(like, width), code


@word
def add_products(typing: Any, tile: Any, table: Any, data: Any, at: Any, rows: Any, r: Any) -> Any:
    """tile[row] += count[at + row] · rows[r:], for the four rows of a panel."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums, table_, data_, at_, rows_, r_ = arguments
        kind, width = signature.args[4], signature.args[0].count // ROWS
        counts = _counts(context, builder, signature.args[1:3], table_, data_, at_)
        old = cgutils.unpack_tuple(builder, sums)
        right = [
            load_code(
                builder, kind, pointer_code(context, builder, kind, rows_, stepped(builder, r_, v))
            )
            for v in range(0, width * signature.args[0].dtype.lanes, signature.args[0].dtype.lanes)
        ]
        new = [
            fma_code(builder, counts[row], right[v], old[row * width + v])
            for row in range(ROWS)
            for v in range(width)
        ]
        return context.make_tuple(builder, signature.return_type, new)

    return tile(tile, table, data, at, rows, r), code


def _places(
    context: Any, builder: Any, kind: Any, array: Any, at: Any, stride: Any, tile: Any
) -> Iterator[Any]:
    """Where the vectors of a tile stand in an array whose rows are ``stride`` apart."""
    width = tile.count // ROWS
    for n in range(tile.count):
        row, v = divmod(n, width)
        index = builder.add(at, builder.mul(stride, ir.Constant(stride.type, row)))
        yield pointer_code(
            context, builder, kind, array, stepped(builder, index, v * tile.dtype.lanes)
        )


@word
def store_tile(typing: Any, tile: Any, out: Any, at: Any, stride: Any) -> Any:
    """out[at + row · stride:] = tile[row]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, out_, at_, stride_ = arguments
        tile_, kind, *_ = signature.args
        places = _places(context, builder, kind, out_, at_, stride_, tile_)
        for vector, place in zip(cgutils.unpack_tuple(builder, vectors), places, strict=True):
            store_code(builder, kind, vector, place)
        return context.get_dummy_value()

    return types.void(tile, out, at, stride), code


@word
def load_tile(typing: Any, rows: Any, at: Any, stride: Any, width: Any) -> Any:
    """tile[row] = rows[at + row · stride:]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows_, at_, stride_, _ = arguments
        tile, kind = signature.return_type, signature.args[0]
        places = _places(context, builder, kind, rows_, at_, stride_, tile)
        vectors = [load_code(builder, kind, place) for place in places]
        return context.make_tuple(builder, tile, vectors)

    return types.UniTuple(Vector(rows.dtype), ROWS * len(width))(rows, at, stride, width), code


@word
def add_combination(  # type: ignore[no-untyped-def]
    typing, out, r, table, data, at, tile
):
    """out[r:] += Σ over the four rows of count[at + row] · tile[row]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out_, r_, table_, data_, at_, tile_ = arguments
        kind, width = signature.args[0], signature.args[5].count // ROWS
        counts = _counts(context, builder, signature.args[2:4], table_, data_, at_)
        rows = cgutils.unpack_tuple(builder, tile_)
        for v in range(width):
            step = stepped(builder, r_, v * signature.args[5].dtype.lanes)
            place = pointer_code(context, builder, kind, out_, step)
            total = load_code(builder, kind, place)
            for row in range(ROWS):
                total = fma_code(builder, counts[row], rows[row * width + v], total)
            store_code(builder, kind, total, place)
        return context.get_dummy_value()

    return types.void(out, r, table, data, at, tile), code
