"""The image and its services promise what the page says: no rights, one volume, one port."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tripheno.federation.machine_limits import LEAST_TASKS

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
IMAGE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]


def test_the_image_runs_as_nobody_and_has_one_volume():
    last = IMAGE.rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\d+):(\d+)$", last, re.MULTILINE) == [("10001", "10001")]
    assert re.findall(r"^VOLUME (.*)$", IMAGE, re.MULTILINE) == ["/study"]
    assert "EXPOSE" not in IMAGE
    assert "-c /source/constraints.txt" in IMAGE


def test_the_image_has_every_file_that_the_package_is_built_from():
    told = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text(encoding="utf-8"))
    project, wheel = told["project"], told["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {project["readme"], *project["license-files"], *wheel["sbom-files"]}
    copied = re.search(r"^COPY (.*) /source/$", IMAGE, re.MULTILINE)[1].split()
    assert needed | {"pyproject.toml", "constraints.txt"} == set(copied)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_no_rights_and_nothing_to_write_to_but_the_study(name):
    service = SERVICES[name]
    assert service["command"][0] == name
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert [volume.rpartition(":")[2] for volume in service["volumes"]] == ["/study"]
    assert service["pids_limit"] >= LEAST_TASKS
    assert ("ports" in service) == (name == "serve")


def rendered(role):
    """A template of the chart with its values in place: it has no other logic than its role."""
    text = (DEPLOY / "helm" / "templates" / f"{role}.yaml").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0] == f'{{{{- if eq .Values.role "{role}" }}}}'
    assert lines[-1] == "{{- end }}"
    values = yaml.safe_load((DEPLOY / "helm" / "values.yaml").read_text(encoding="utf-8"))
    text = "\n".join(lines[1:-1]).replace("{{ .Release.Name }}", "sepsis")
    text = re.sub(r"{{ \.Values\.(\w+) }}", lambda found: str(values[found[1]]), text)
    assert "{{" not in text
    return {one["kind"]: one["spec"] for one in yaml.safe_load_all(text)}


@pytest.mark.parametrize(
    ("role", "names"), [("hospital", ["join"]), ("coordinator", ["serve", "run"])]
)
def test_a_pod_of_the_chart_has_no_rights_and_writes_to_the_study_alone(role, names):
    made = rendered(role)
    pod = made["StatefulSet"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert not pod["automountServiceAccountToken"]
    assert [one["name"] for one in pod["containers"]] == names
    for one in pod["containers"]:
        assert one["securityContext"]["readOnlyRootFilesystem"]
        assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert [folder["mountPath"] for folder in one["volumeMounts"]] == ["/study", "/tmp"]
        assert ("ports" in one) == (one["name"] == "serve")
    assert ("Service" in made) == (role == "coordinator")
    if role == "hospital":
        assert made["NetworkPolicy"]["policyTypes"] == ["Ingress", "Egress"]
        assert "ingress" not in made["NetworkPolicy"]
        assert [
            one["port"] for rule in made["NetworkPolicy"]["egress"] for one in rule["ports"]
        ] == [8002, 53, 53]
