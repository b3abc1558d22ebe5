"""A command offers what the package can do, no more and no less."""

from __future__ import annotations

from typing import get_args

import pytest

from tripheno.cli import ingest, simulate
from tripheno.solver import settings
from tripheno.study.makers import SumsKind
from tripheno.vocabulary.alignment import AlignKind


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        (simulate.MethodName, settings.METHODS),
        (simulate.VariantName, settings.VARIANTS),
        (simulate.ConstraintName, settings.CONSTRAINTS),
        (simulate.LossName, settings.LOSSES),
        (simulate.InfluenceName, settings.INFLUENCES),
        (simulate.PrecisionName, settings.PRECISIONS),
        (simulate.SumsName, get_args(SumsKind)),
        (simulate.AlignName, get_args(AlignKind)),
    ],
)
def test_an_option_of_simulate_takes_every_word_that_its_setting_takes(offered, known):
    assert get_args(offered) == known


@pytest.mark.parametrize("name", get_args(ingest.SourceName))
def test_every_source_that_ingest_offers_is_there(name):
    assert ingest.source_named(name).name == name
