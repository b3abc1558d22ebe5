"""The two settings files: what they mean, what is refused, and where the fault stands."""

from __future__ import annotations

import stat
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st

from tripheno.cli.layers import layers_over
from tripheno.errors import (
    BadKeyFile,
    BadProtocol,
    BadSiteSettings,
    NoSuchFile,
    OtherProtocol,
    OutputExists,
    SettingsError,
    ThresholdTooLow,
    UnknownMember,
)
from tripheno.exchange.keys import Identity
from tripheno.protocol.agreed import (
    AgreedMember,
    check_words,
    protocol_hash,
    read_protocol,
    words_of,
)
from tripheno.protocol.contradictions import FITS_OF_A_RANK
from tripheno.protocol.key_files import make_identity, public_path, read_identity
from tripheno.protocol.settings_file import lines_of
from tripheno.protocol.site import read_site
from tripheno.protocol.templates import federation_toml, site_toml
from tripheno.solver.tournament import FINAL

IDENTITIES = {name: Identity.from_bytes(name.encode().ljust(32)) for name in ("a", "b", "c")}
MEMBERS = [AgreedMember(name, one.fingerprint) for name, one in IDENTITIES.items()]


@pytest.fixture
def federation(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(federation_toml("heart and kidney", MEMBERS), encoding="utf-8")
    return path


@pytest.fixture
def site(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(site_toml("a", "records"), encoding="utf-8")
    return path


def change(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_the_written_file_reads_back_with_the_defaults_that_are_documented(federation):
    protocol = read_protocol(federation)
    assert protocol.study == "heart and kidney"
    assert protocol.names == ("a", "b", "c")
    assert (protocol.thresholds.min_cell_count, protocol.thresholds.min_site_patients) == (11, 100)
    assert (protocol.solver.method, protocol.solver.n_components) == ("exact", 10)
    assert (protocol.rule.modes, protocol.rule.window) == (("medication", "diagnosis"), "visit")


def test_every_line_that_is_commented_out_shows_the_default_it_stands_for(federation):
    before = read_protocol(federation)
    text = federation.read_text(encoding="utf-8")
    shown = [
        line[2:] if line.startswith(("# variant", "# constraint", "# seed", "# tol")) else line
        for line in text.splitlines()
    ]
    federation.write_text("\n".join(shown), encoding="utf-8")
    assert protocol_hash(read_protocol(federation)) == protocol_hash(before)


def test_comments_order_and_the_address_do_not_change_the_hash(federation):
    before = protocol_hash(read_protocol(federation))
    change(federation, "coordinator.example.org:8002", "10.0.0.1:9000")
    change(federation, "# The protocol of a study.", "# Ours.")
    change(federation, 'window = "visit"', "window = 'visit'")
    assert protocol_hash(read_protocol(federation)) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rank = 10", "rank = 11"),
        ("min_cell_count = 11", "min_cell_count = 12"),
        ('"visit"', '"person"'),
        ("max_rounds = 5000", "max_rounds = 5001"),
        ('name = "a"', 'name = "d"'),
        ("# seed = 0", "seed = 1"),
        ("# test = false", "test = true"),
    ],
)
def test_whatever_is_agreed_on_changes_the_hash(federation, old, new):
    before = protocol_hash(read_protocol(federation))
    assert protocol_hash(read_protocol(change(federation, old, new))) != before


def test_all_faults_are_told_at_once_each_with_its_line(federation):
    change(federation, "rank = 10", 'rank = "ten"')
    change(federation, 'window = "visit"', 'windows = "visit"')
    change(federation, "min_cell_count = 11", "min_cell_count = 0")
    change(federation, MEMBERS[1].fingerprint, "12:34")
    change(federation, "[study]", '[study]\ncolour = "blue"')
    with pytest.raises(BadProtocol) as caught:
        read_protocol(federation)
    text = federation.read_text(encoding="utf-8").splitlines()
    for start, words in (
        ("rank", "model.rank must be a whole number of 1 or more, not 'ten'"),
        ("windows", "unknown key data.windows (did you mean data.window?)"),
        ("min_cell_count", "thresholds.min_cell_count must be"),
        ('fingerprint = "12:34"', "members[1].fingerprint must be a fingerprint"),
        ("colour", "unknown key study.colour"),
    ):
        line = next(n for n, one in enumerate(text, 1) if one.startswith(start))
        assert f"line {line}: {words}" in caught.value.what
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('name = "b"', 'name = "a"', "two members have this name"),
        ('method = "exact"', 'method = "central"', "pools patients"),
        ('method = "exact"', 'method = "trip"', "accept_division_leak"),
        ('mode = "tokens"', 'mode = "polynomial"', "`tripheno simulate` only"),
        ("# resamples = 10 ", "ranks = [2, 0] #", "evidence.ranks must be"),
        ("# resamples = 10 ", "resamples = 11 #", "fewer than thresholds.min_cell_count"),
        ('name = "b"', 'name = "b"\ninstitution = "a"', "three are needed"),
        ('mode = "tokens"', 'mode = "vocabulary"', "alignment.lists.medication is missing"),
        ('["medication", "diagnosis"]', '["medication"]', "two or more different names"),
        ("[study]", "[study", "not TOML"),
        ("[evidence]", "[guides.X]\nlab = ['a']\n[evidence]", "guides.X.lab is of a mode that"),
        (
            'method = "exact"',
            'method = "trip"\nvariant = "printed"',
            "needs consensus_penalty",
        ),
        ("# starts = 16 ", "starts = 41 #", "line 34: starts must be at most 40"),
        ("# loss = ", 'loss = "poisson"\nbias = true #', "poisson does not go with a bias"),
        ('method = "exact"', 'method = "local"\nloss = "poisson"', "not with local"),
        ("# variant = ", 'variant = "printed" #', "model.variant acts on model.method trip only"),
        ("# [penalties]", "[penalties]\nconsensus_penalty = 2.0", "acts on model.method trip"),
        ("# [penalties]", "[penalties]\nsparsity = 0.1", "acts on model.constraint sparse"),
        ("# resamples = 10 ", "ranks = [2, 3, 2] #", "names a number twice"),
        ('name = "b"', 'name = "../b"', "must be a name of letters"),
        ("max_rounds = 5000", "max_rounds = 50", "this study takes 62 or more"),
        ("[evidence]", "[guides.X]\ndiagnosis = []\n[evidence]", "must be a list of texts"),
        ('window = "visit"', 'window = "fortnight"', "unknown window"),
        ("# [set_aside]", "[set_aside]\ncommon = 2", "at most 1"),
    ],
)
def test_what_makes_no_study_is_refused(federation, old, new, words):
    with pytest.raises(BadProtocol) as caught:
        read_protocol(change(federation, old, new))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "words"), [("ranks = [2, 3]", "weighed by local"), ("resamples = 5", "no common")]
)
def test_the_baseline_local_is_asked_for_no_evidence(federation, setting, words):
    change(federation, 'method = "exact"', 'method = "local"')
    with pytest.raises(BadProtocol, match=words):
        read_protocol(change(federation, "# resamples = 10 ", f"{setting} #"))


def test_the_least_budget_of_rounds_counts_the_fits_of_other_ranks(federation):
    change(federation, "# resamples = 10 ", "ranks = [2, 3] #")
    least = 2 * (1 + 2 * FITS_OF_A_RANK + FINAL)  # two modes
    change(federation, "max_rounds = 5000", f"max_rounds = {least}")
    assert read_protocol(federation).budgets.max_rounds == least
    with pytest.raises(BadProtocol, match=f"takes {least} or more"):
        read_protocol(change(federation, f"max_rounds = {least}", f"max_rounds = {least - 1}"))


def test_more_guides_than_phenotypes_are_refused_where_they_stand(federation):
    guides = "".join(f"[guides.X{n}]\ndiagnosis = ['a']\n" for n in range(11))
    with pytest.raises(BadProtocol, match="line 25: 11 guides for 10 components"):
        read_protocol(change(federation, "[evidence]", f"{guides}[evidence]"))


def test_two_hospitals_need_the_word_that_allows_two(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text(federation_toml("two", MEMBERS[:2]), encoding="utf-8")
    with pytest.raises(BadProtocol, match="each sees the other's contribution"):
        read_protocol(path)
    change(path, "# allow_two = false", "allow_two = true")
    assert read_protocol(path).allow_two


def test_a_public_list_is_read_and_is_part_of_the_hash(federation):
    for mode in ("medication", "diagnosis"):
        (federation.parent / f"{mode}.txt").write_text("A01\nB02\n", encoding="utf-8")
    change(federation, 'mode = "tokens"', 'mode = "vocabulary"')
    lists = '[alignment.lists]\nmedication = "medication.txt"\ndiagnosis = "diagnosis.txt"\n'
    change(federation, "[model]", lists + "[model]")
    protocol = read_protocol(federation)
    assert {one.mode: one.codes for one in protocol.lists}["diagnosis"] == ("A01", "B02")
    (federation.parent / "diagnosis.txt").write_text("A01\nB03\n", encoding="utf-8")
    assert protocol_hash(read_protocol(federation)) != protocol_hash(protocol)


def test_the_command_line_goes_over_the_environment_and_that_over_the_file(federation):
    environment = {
        "TRIPHENO__FEDERATION__MODEL__RANK": "12",
        "TRIPHENO__FEDERATION__MODEL__METHOD": "exact",
        "TRIPHENO__SITE__HOSPITAL__NAME": "elsewhere",
        "HOME": "somewhere",
    }
    options = {"model.rank": ("--rank", 14), "model.seed": ("--seed", None)}
    layers = layers_over("federation", options, environment)
    solver = read_protocol(federation, layers).solver
    assert (solver.n_components, solver.method, solver.seed) == (14, "exact", 0)


def test_a_fault_names_the_variable_or_option_it_came_from(federation):
    environment = {"TRIPHENO__FEDERATION__MODEL__RANK": "many"}
    with pytest.raises(BadProtocol, match=r"__MODEL__RANK: model\.rank must be"):
        read_protocol(federation, layers_over("federation", {}, environment))
    options = {"model.rank": ("--rank", 0)}
    with pytest.raises(BadProtocol, match=r"--rank: model\.rank must be"):
        read_protocol(federation, layers_over("federation", options, {}))
    with pytest.raises(SettingsError, match="unknown variable"):
        layers_over("site", {}, {"TRIPHENO__MODEL__RANK": "3"})


def test_a_site_file_reads_back_with_paths_beside_it(site):
    found = read_site(site)
    assert (found.name, found.events) == ("a", site.parent / "records")
    assert found.identity == site.parent / "keys/hospital.key"
    assert (found.min_cell_count, found.min_site_patients) == (None, None)


def test_a_site_may_lower_its_own_patients_and_raise_the_networks_cells(site, federation):
    protocol = read_protocol(federation)
    change(site, "# min_site_patients = 100", "min_site_patients = 40")
    assert read_site(site).thresholds(protocol).min_site_patients == 40
    change(site, "# min_cell_count = 11", "min_cell_count = 10")
    assert read_site(site).thresholds(protocol).min_cell_count == 11
    change(site, "min_cell_count = 10", "min_cell_count = 20")
    assert read_site(site).thresholds(protocol).min_cell_count == 20
    change(site, "min_cell_count = 20", "min_cell_count = 111")
    with pytest.raises(ThresholdTooLow) as caught:
        read_site(site).thresholds(protocol)
    assert caught.value.exit_code == 4


def test_a_site_file_checks_its_column_mapping_with_everything_else(site):
    change(site, "[folders]", '[[source.tables]]\nfile = "x.csv"\n\n[folders]\nlog = "x"')
    with pytest.raises(BadSiteSettings) as caught:
        read_site(site)
    assert "unknown key folders.log" in caught.value.what
    assert "no 'mode'" in caught.value.what


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path):
    with pytest.raises(NoSuchFile, match="tripheno init"):
        read_protocol(tmp_path / "federation.toml")


def test_the_roster_takes_only_the_keys_that_were_agreed_on(federation):
    protocol = read_protocol(federation)
    publics = {name: one.public for name, one in IDENTITIES.items()}
    assert protocol.roster(publics, bytes(32)).names == ("a", "b", "c")
    for wrong in (
        {**publics, "b": publics["a"]},
        {name: publics[name] for name in "ab"},
        {**publics, "x": publics["a"]},
    ):
        with pytest.raises(UnknownMember):
            protocol.roster(wrong, bytes(32))


def test_a_key_file_is_its_owners_alone_and_is_never_overwritten(tmp_path):
    path = tmp_path / "keys" / "hospital.key"
    made = make_identity(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    public = load_pem_public_key(public_path(path).read_bytes()).public_bytes_raw()
    assert read_identity(path).public == made.public == public
    with pytest.raises(OutputExists):
        make_identity(path)
    path.chmod(0o644)
    with pytest.raises(BadKeyFile, match="others on this machine"):
        read_identity(path)
    with pytest.raises(BadKeyFile, match="no such key file"):
        read_identity(tmp_path / "none")


@given(st.text(max_size=200))
def test_no_text_breaks_the_search_for_lines(text):
    assert all(number >= 1 for number in lines_of(text).values())


def test_a_protocol_is_a_value(federation):
    protocol = read_protocol(federation)
    assert replace(protocol, study="x") != protocol
    assert read_protocol(federation) == protocol


def test_the_words_of_a_study_are_its_own_and_another_studys_are_refused(federation):
    protocol = read_protocol(federation)
    words = words_of(protocol)
    assert len(words.split()) == 8
    check_words(protocol, f"  {words.upper().replace(' ', ', ')}.")
    changed = replace(protocol, members=protocol.members[::-1], study="another")
    with pytest.raises(OtherProtocol, match="another study"):
        check_words(changed, words)
