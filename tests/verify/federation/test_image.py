"""The image as it is built, and the guide followed in containers that may do what the page says."""

import os
import subprocess
from dataclasses import dataclass

import pytest

from kit.guide_reader import FIRST, GUIDE, PROJECT, Machine, Reader, omop_tables, section
from kit.requirements import require, tool

pytestmark = pytest.mark.verify

NOBODY = 10001
RIGHTS = ("--read-only", "--tmpfs=/tmp:mode=1777,size=256m", "--cap-drop=ALL", "--init",
          "--security-opt=no-new-privileges", "--pids-limit=1024")  # fmt: skip
LABEL = f"tripheno-test={os.getpid()}"


def podman(*words, check=True):
    return subprocess.run(
        [str(tool("podman")), *map(str, words)], check=check, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def image():
    """``TRIPHENO_IMAGE``, if there is one already; else built, on ``TRIPHENO_BASE`` if named."""
    named = os.environ.get("TRIPHENO_IMAGE")
    base = os.environ.get("TRIPHENO_BASE")
    if not named:
        named, more = "localhost/tripheno-test", [f"--build-arg=BASE={base}"] if base else []
        built = podman("build", "-f", PROJECT / "deploy" / "Containerfile", "-t", named, *more,
                       PROJECT, check=False)  # fmt: skip
        require(built.returncode == 0, "no image can be built here: " + built.stderr[-300:])
    yield named
    left = podman("ps", "--all", "--quiet", f"--filter=label={LABEL}").stdout.split()
    podman("rm", "--force", "--time=0", *left, check=bool(left))


@dataclass
class Contained(Machine):
    """A machine of which the study sees its folder, as ``/study``."""

    image: str = ""

    def give(self, path):
        os.chown(path, NOBODY, NOBODY)

    def start(self, command, heard, pipe):
        env = [f"--env={name}={value}" for name, value in heard.items()]
        words = ["run", "--rm", "--network=host", f"--label={LABEL}", *RIGHTS, *env,
                 f"--volume={self.folder}:/study", "--entrypoint=sh", self.image,
                 "-euc", f"exec {command}"]  # fmt: skip
        return subprocess.Popen(
            [str(tool("podman")), *words], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
            text=True, start_new_session=True,
        )  # fmt: skip


@pytest.fixture
def machines(image, tmp_path):
    made = {}
    for name in ("coordinator", *FIRST):
        made[name] = Contained(tmp_path / name, image=image)
        made[name].folder.mkdir(mode=0o700)
        made[name].give(made[name].folder)
    return made


def test_the_guide_works_in_containers_without_rights(machines):
    omop_tables({name: machines[name].folder for name in FIRST})
    for name in FIRST:
        machines[name].give(machines[name].folder / "cdm")
    reader = Reader(machines)
    with reader.stack:
        reader.follow(section(GUIDE, "## 2. Agree") + section(GUIDE, "## 3. Cert"))
        reader.follow(section(GUIDE, "## 4. Data") + section(GUIDE, "## 5. Start"))
        reader.follow(section(GUIDE, "## 6. Run") + section(GUIDE, "## 7. What"))
        assert (reader.place("coordinator") / "run" / "report.html").is_file()
        for name in FIRST:
            assert (reader.place(name) / "runs" / reader.heard["run"] / "report.html").is_file()
        reader.stop("coordinator", *FIRST)


@pytest.mark.parametrize("place", ["/opt/tripheno", "/etc", "/usr/bin", "/home"])
def test_a_container_is_nobody_and_writes_to_the_study_alone(machines, place):
    def said(command):
        process = machines["harbour"].start(command, {}, subprocess.PIPE)
        return process.communicate(timeout=60)[0].strip(), process.returncode

    assert said("id -u") == (str(NOBODY), 0)
    assert said("touch /study/mine")[1] == 0
    assert said(f"touch {place}/mine")[1] != 0
    assert said("grep CapEff /proc/self/status")[0].split()[-1].strip("0") == ""
