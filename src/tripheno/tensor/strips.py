"""Strips for the kernels: one, two or three vectors side by side, all of them in registers.

A strip is a part of a factor's row. How many vectors it has is known when a loop is compiled, from
a *width*: a tuple as long as that. See `vectors` for the words both are made of.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from tripheno.tensor.vectors import (
    Vector,
    fma_code,
    load_code,
    pointer_code,
    spread_code,
    stepped,
    store_code,
    word,
)


def _strip_places(context: Any, builder: Any, kind: Any, array: Any, at: Any, n: int) -> list[Any]:
    lanes = Vector(kind.dtype).lanes
    return [
        pointer_code(context, builder, kind, array, stepped(builder, at, v * lanes))
        for v in range(n)
    ]


def _strip_at(context: Any, builder: Any, kind: Any, array: Any, at: Any, n: int) -> list[Any]:
    places = _strip_places(context, builder, kind, array, at, n)
    return [load_code(builder, kind, place) for place in places]


@word
def empty_strip(typing: Any, like: Any, width: Any) -> Any:
    """Zeros, for numbers like those of an array."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del arguments
        strip = signature.return_type
        zero = ir.Constant(context.get_value_type(strip.dtype), None)
        return context.make_tuple(builder, strip, [zero] * strip.count)

    return types.UniTuple(Vector(like.dtype), len(width))(like, width), code


@word
def load_strip(typing: Any, rows: Any, at: Any, width: Any) -> Any:
    """The strip rows[at:]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows_, at_, _ = arguments
        strip, kind = signature.return_type, signature.args[0]
        vectors = _strip_at(context, builder, kind, rows_, at_, strip.count)
        return context.make_tuple(builder, strip, vectors)

    return types.UniTuple(Vector(rows.dtype), len(width))(rows, at, width), code


@word
def store_strip(typing: Any, strip: Any, out: Any, at: Any) -> Any:
    """out[at:] = strip."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, out_, at_ = arguments
        kind = signature.args[1]
        places = _strip_places(context, builder, kind, out_, at_, signature.args[0].count)
        for vector, place in zip(cgutils.unpack_tuple(builder, vectors), places, strict=True):
            store_code(builder, kind, vector, place)
        return context.get_dummy_value()

    return types.void(strip, out, at), code


@word
def add_strip(typing: Any, strip: Any, rows: Any, at: Any) -> Any:
    """Strip + rows[at:]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, rows_, at_ = arguments
        kind, count = signature.args[1], signature.args[0].count
        more = _strip_at(context, builder, kind, rows_, at_, count)
        pairs = zip(cgutils.unpack_tuple(builder, vectors), more, strict=True)
        total = [builder.fadd(one, other) for one, other in pairs]
        return context.make_tuple(builder, signature.return_type, total)

    return strip(strip, rows, at), code


@word
def multiply_add(typing: Any, strip: Any, a: Any, b: Any) -> Any:
    """Strip + a ∘ b."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        parts = [cgutils.unpack_tuple(builder, part) for part in arguments]
        total = [fma_code(builder, x, y, z) for z, x, y in zip(*parts, strict=True)]
        return context.make_tuple(builder, signature.return_type, total)

    return strip(strip, a, b), code


@word
def sum_of_strips(typing: Any, strip: Any, other: Any) -> Any:
    """Strip + other."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, more = (cgutils.unpack_tuple(builder, part) for part in arguments)
        total = [builder.fadd(x, y) for x, y in zip(one, more, strict=True)]
        return context.make_tuple(builder, signature.return_type, total)

    return strip(strip, other), code


@word
def multiplied(typing: Any, strip: Any, by: Any) -> Any:
    """Strip ∘ by."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = (cgutils.unpack_tuple(builder, part) for part in arguments)
        product = [builder.fmul(x, y) for x, y in zip(one, other, strict=True)]
        return context.make_tuple(builder, signature.return_type, product)

    return strip(strip, by), code


@word
def add_weighted(typing: Any, strip: Any, weight: Any, rows: Any, at: Any) -> Any:
    """Strip + weight · rows[at:]."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vectors, weight_, rows_, at_ = arguments
        strip_, number, kind = signature.args[0], signature.args[1], signature.args[2]
        weight_ = context.cast(builder, weight_, number, kind.dtype)
        weights = spread_code(builder, weight_, context.get_value_type(strip_.dtype))
        more = _strip_at(context, builder, kind, rows_, at_, strip_.count)
        pairs = zip(cgutils.unpack_tuple(builder, vectors), more, strict=True)
        total = [fma_code(builder, weights, row, old) for old, row in pairs]
        return context.make_tuple(builder, signature.return_type, total)

    return strip(strip, weight, rows, at), code


@word
def add_into(typing: Any, out: Any, at: Any, strip: Any) -> Any:
    """out[at:] += strip."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out_, at_, vectors = arguments
        kind = signature.args[0]
        places = _strip_places(context, builder, kind, out_, at_, signature.args[2].count)
        for vector, place in zip(cgutils.unpack_tuple(builder, vectors), places, strict=True):
            store_code(builder, kind, builder.fadd(load_code(builder, kind, place), vector), place)
        return context.get_dummy_value()

    return types.void(out, at, strip), code
