"""What a study cannot do is refused by the first command that reads its settings, not by `run`."""

from __future__ import annotations

import pytest

from tripheno.cli.approve import approve
from tripheno.cli.check import check
from tripheno.cli.console import Format
from tripheno.cli.join import join
from tripheno.cli.preview import preview
from tripheno.cli.run import run
from tripheno.errors import TriphenoError
from tripheno.exchange.keys import Identity
from tripheno.protocol.agreed import AgreedMember
from tripheno.protocol.templates import federation_toml, site_toml


@pytest.fixture
def folder(tmp_path, monkeypatch):
    keys = {name: Identity.from_bytes(name.encode().ljust(32)) for name in ("a", "b", "c")}
    members = [AgreedMember(name, one.fingerprint) for name, one in keys.items()]
    (tmp_path / "federation.toml").write_text(federation_toml("heart", members), encoding="utf-8")
    (tmp_path / "site.toml").write_text(site_toml("a", "records"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checked():
    """`tripheno check`, whose table a narrow screen would break into lines."""
    check(form=Format.json)


def refused(command, capsys):
    """What a command says, and that it goes no further."""
    with pytest.raises((TriphenoError, SystemExit)) as caught:
        command()
    return capsys.readouterr().out + str(caught.value)


@pytest.mark.parametrize("command", [checked, preview, lambda: approve(words="a b"), join])
@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("federation.toml", "rank = 10", "rank = 0", "line 26"),
        ("federation.toml", "max_rounds = 5000", "max_rounds = 9", "62 or more"),
        ("federation.toml", "# resamples = 10 ", "resamples = 30 #", "min_cell_count (11)"),
        ("federation.toml", 'method = "exact"', 'method = "central"', "pools patients"),
        ("site.toml", "# min_cell_count = ", "min_cell_count = 500 #", "this hospital wants 500"),
        ("site.toml", "[hospital]", "[hospital]\ncolour = 1", "unknown key hospital.colour"),
    ],
)
def test_every_command_before_a_run_refuses_it(command, file, old, new, words, folder, capsys):
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert words in refused(command, capsys)


def test_a_coordinator_that_only_checks_is_told_as_well(folder, capsys):
    (folder / "site.toml").unlink()
    path = folder / "federation.toml"
    text = path.read_text(encoding="utf-8").replace("rank = 10", "rank = 0")
    path.write_text(text, encoding="utf-8")
    for command in (checked, lambda: run(folder=folder)):
        assert "model.rank must be" in refused(command, capsys)
