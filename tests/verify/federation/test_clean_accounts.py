"""The guide and the pages after it, on accounts that have nothing and see nothing of each other."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from kit.guide_reader import (
    FIRST,
    GUIDE,
    NEW,
    OPERATE,
    PROJECT,
    Machine,
    Reader,
    omop_tables,
    section,
)
from kit.requirements import require, tool

pytestmark = pytest.mark.verify

ROOTS = re.compile(r"^```text\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)
PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"  # a Python that every account may run


def as_root(text, account, home, program):
    """Lines of the page as the administrator of one machine types them."""
    for line in text.replace("\\\n", " ").splitlines():
        words = re.sub(r"^sudo ", "", line).replace("/srv/tripheno", str(home))
        words = re.sub(r" tripheno$", f" {account}", words).replace("/opt/tripheno", str(program))
        env = {**os.environ, "PATH": PATH}
        subprocess.run(
            ["bash", "-euc", words], check=True, capture_output=True, cwd=PROJECT, env=env
        )


def made_machine(base, program, name):
    """An account, as step 1 of the guide makes it, with the study's folder."""
    account, home = f"tph-{os.getpid()}-{name}"[:31], base / name
    useradd, *_ = ROOTS.findall(section(GUIDE, "## 1. Install"))
    as_root("\n".join(useradd.splitlines()[:2]), account, home, program)
    machine = Machine(home / "sepsis", account, program / "bin")
    machine.folder.mkdir()
    machine.give(machine.folder)
    return machine


def new_tables(reader, seed):
    """The hospitals' own tables, as they are by now."""
    omop_tables({name: reader.place(name) for name in reader.hospitals}, seed)
    for name in reader.hospitals:
        reader.machines[name].give(reader.place(name) / "cdm")


def start_again(reader, *, serve=False):
    """As the services do after a change."""
    for name in (*(("coordinator",) if serve else ()), *reader.hospitals):
        if name in reader.waiting:
            reader.stop(name)
        word = "serve" if name == "coordinator" else "join"
        reader.say(name, f"tripheno {word}", wait=False)


def reported(reader, out):
    """Whether everybody has the report of the last run."""
    run = Path("runs") / reader.heard["run"]
    reports = [reader.place(name) / run / "report.html" for name in reader.hospitals]
    return all(path.is_file() for path in (reader.place("coordinator") / out / "report.html",
                                           *reports))  # fmt: skip


@pytest.fixture(scope="module")
def reader():
    """Everybody has followed the guide."""
    require(os.geteuid() == 0, "only root may make accounts")
    tool("useradd")
    base = Path(tempfile.mkdtemp(prefix="guide-", dir="/srv"))
    base.chmod(0o755)
    program, made = base / "opt", {}
    try:
        first, second, *_ = ROOTS.findall(section(GUIDE, "## 1. Install"))
        as_root(first.splitlines()[2] + "\n" + second, "", base, program)
        for name in ("coordinator", *FIRST, NEW, "successor"):
            made[name] = made_machine(base, program, name)
        reader = Reader(made)
        new_tables(reader, 0)
        with reader.stack:
            reader.follow(GUIDE[: GUIDE.index("## What goes wrong")])
            yield reader
    finally:
        for one in pwd.getpwall():
            if one.pw_name.startswith(f"tph-{os.getpid()}-"):
                subprocess.run(["userdel", one.pw_name], check=False, capture_output=True)
        shutil.rmtree(base)


def test_the_guide_works_on_clean_accounts_that_see_nothing_of_each_other(reader):
    assert reported(reader, "run")
    for name in ("coordinator", "northfield"):
        closed = reader.place(name) / "federation.toml"
        look = reader.machines["harbour"].start(f"cat {closed}", {}, subprocess.PIPE)
        assert look.wait() != 0
        assert "Permission denied" in look.communicate()[1]


def test_certificates_are_renewed_and_the_study_runs_again(reader):
    before = (reader.place("harbour") / "state" / "engine").rglob("client.crt")
    old = {path: path.read_bytes() for path in before}
    reader.follow(section(OPERATE, "## Renew"))
    assert old
    assert all(path.read_bytes() != data for path, data in old.items())
    start_again(reader)
    reader.say("coordinator", "tripheno run --new --out run", wait=True)
    assert reported(reader, "run")


def test_the_coordinators_machine_is_replaced_and_hospitals_connect_by_themselves(reader):
    page, old = section(OPERATE, "### Replace the"), reader.machines["coordinator"]
    new = reader.machines["successor"]
    reader.stop("coordinator")
    pack, unpack = ROOTS.findall(page)[0].splitlines()
    file = str(old.folder.parent.parent / "sepsis.tar.gz")
    as_root(pack.replace("sepsis.tar.gz", file), old.account, old.folder.parent, "")
    shutil.rmtree(old.folder)
    as_root(unpack.replace("sepsis.tar.gz", file), new.account, new.folder.parent, "")
    for path in (new.folder, *new.folder.rglob("*")):
        if not path.is_symlink():
            new.give(path)  # on a machine of its own, the account has the same name
    reader.machines["coordinator"] = new
    reader.follow(page)
    reader.say("coordinator", "tripheno serve", wait=False)
    reader.say("coordinator", "tripheno run --new --out run", wait=True)
    assert reported(reader, "run")


def test_a_hospital_is_added_to_the_next_study(reader):
    page = section(OPERATE, "## Add a hospital")
    install, rest = page.split("Its privacy officer makes a key")
    approve, run = rest.split("Start `join` again everywhere")
    reader.follow(install)
    reader.say(NEW, "tripheno approve --make-key --key keys/officer.key", wait=True)
    new_tables(reader, 1)
    reader.follow(approve)
    start_again(reader)
    reader.follow(run)
    assert len(reader.hospitals) == 4
    assert reported(reader, "run-2")


def test_an_upgrade_is_refused_until_the_officers_have_approved_it(reader):
    program = reader.machines["harbour"].program.parent
    (file,) = program.glob("lib/python3*/site-packages/tripheno/__init__.py")
    text = file.read_text()
    file.write_text(re.sub(r'(__version__ = ")[^"]*', r"\g<1>99.0", text))
    reader.stop("harbour")
    early = reader.machines["harbour"].start("tripheno join", {}, subprocess.PIPE)
    _, said = early.communicate(timeout=500)
    assert early.returncode == 4
    assert "tripheno is 99.0, not" in said
    reader.follow(section(OPERATE, "## Upgrade"))
    start_again(reader, serve=True)
    reader.say("coordinator", "tripheno run --new --out run-2", wait=True)
    assert reported(reader, "run-2")
