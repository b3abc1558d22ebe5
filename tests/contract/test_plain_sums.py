"""Sums in clear keep the contract of all sums; and the exchange and the hospital that use them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tripheno.errors import BadMessage
from tripheno.exchange import Broadcast, Contribution, Exchange, InProcessChannel, PlainSums
from tripheno.exchange.messages import unpack
from tripheno.exchange.sums import Hospital, as_responder, handler
from tripheno.testing.sums_contract import SumsContract, part


class TestPlainSums(SumsContract):
    def make_sums(self, hospitals):
        sums = PlainSums()
        return dict.fromkeys(hospitals, sums), sums


@dataclass(frozen=True)
class Question(Broadcast):
    factor: float


@dataclass(frozen=True)
class Answer(Contribution):
    product: float
    row: np.ndarray


def federation(handlers):
    hospitals = {
        name: as_responder(Hospital(name, PlainSums(), {"ask": make(size)}))
        for (name, size), make in zip({"one": 1.0, "two": 2.0}.items(), handlers, strict=True)
    }
    return Exchange(InProcessChannel(hospitals), PlainSums())


def honest(size):
    return handler(Question, lambda asked: Answer(size * asked.factor, np.full(2, size)))


def silent(size):
    return handler(Question, lambda asked: None)


EMPTY = Answer(0.0, np.zeros(2))


def test_nothing_is_hidden_by_plain_sums():
    sealed = PlainSums().seal("one", "ask/1", part(3))
    for name, array in unpack(sealed, where="test").items():
        assert np.array_equal(array, part(3)[name])


def test_finite_parts_whose_sum_is_not_finite_are_refused():
    sums = PlainSums()
    like = {"error": np.zeros(())}
    sealed = {name: sums.seal(name, "s", {"error": np.array(1.7e308)}) for name in ("one", "two")}
    with pytest.raises(BadMessage, match="the sum is not finite"):
        sums.total("s", sealed, like)


def test_a_round_broadcasts_and_brings_back_the_sum():
    exchange = federation([honest, honest])
    total = exchange.sum("ask/1", Question(10.0), EMPTY)
    assert exchange.size == 2
    assert total.product == 30.0
    assert isinstance(total.product, float)
    assert np.array_equal(total.row, [3.0, 3.0])


def test_a_round_without_sums_brings_back_each_message_by_name():
    answers = federation([honest, honest]).gather("ask/1", Question(10.0), Answer)
    assert {name: answer.product for name, answer in answers.items()} == {"one": 10.0, "two": 20.0}


def test_a_hospital_that_answers_nothing_to_a_question_is_refused_by_name():
    with pytest.raises(BadMessage, match="two"):
        federation([honest, silent]).sum("ask/1", Question(1.0), EMPTY)


def test_a_hospital_that_answers_where_it_should_listen_is_refused_by_name():
    federation([silent, silent]).tell("ask/1", Question(1.0))
    with pytest.raises(BadMessage, match="two"):
        federation([silent, honest]).tell("ask/1", Question(1.0))


def test_a_step_no_hospital_knows_is_refused():
    with pytest.raises(BadMessage, match="unknown step 'steal'"):
        federation([honest, honest]).sum("steal/1", Question(1.0), EMPTY)


def test_a_broadcast_of_another_type_is_refused_at_the_hospital():
    @dataclass(frozen=True)
    class Other(Broadcast):
        something: float

    with pytest.raises(BadMessage, match="'factor' is missing"):
        federation([honest, honest]).sum("ask/1", Other(1.0), EMPTY)
