"""The files of deploy/ say what the commands take, and have the fields that their schemas ask for."""

import re
from pathlib import Path

import pytest
import yaml

from tests.rooms import ROOT

DEPLOY = ROOT / "deploy"
# The fields that an object of each kind must and may have, as Kubernetes describes them.
POD = {"restartPolicy", "securityContext", "containers", "volumes"}
FIELDS = {
    "Deployment": ("apps/v1", {"selector", "template"}, {"replicas", "strategy"}),
    "Job": ("batch/v1", {"template"}, {"backoffLimit"}),
    "Service": ("v1", {"ports", "selector"}, {"type"}),
    "PodDisruptionBudget": ("policy/v1", {"selector"}, {"minAvailable", "maxUnavailable"}),
}
CONTAINER = {"name", "image", "command", "args", "ports", "env", "resources", "securityContext", "volumeMounts"}
CONTAINER |= {"startupProbe", "readinessProbe", "livenessProbe"}


def objects():
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    assert files
    return [each for file in files for each in yaml.safe_load_all(file.read_text())]


def pods():
    return [(each, each["spec"]["template"]["spec"]) for each in objects() if "template" in each["spec"]]


def flags_of(command):
    module = command[command.index("-m") + 1]
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    return [word for word in command if word.startswith("--")], source


def test_objects_have_the_fields_of_their_kind():
    for each in objects():
        version, needed, possible = FIELDS[each["kind"]]
        assert each["apiVersion"] == version and set(each) == {"apiVersion", "kind", "metadata", "spec"}
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", each["metadata"]["name"])
        assert needed <= set(each["spec"]) <= needed | possible, each["kind"]


def test_pods_have_what_their_containers_name():
    for owner, pod in pods():
        assert {"containers"} <= set(pod) <= POD
        assert owner["kind"] != "Job" or pod["restartPolicy"] in ("OnFailure", "Never")
        volumes = {each["name"] for each in pod["volumes"]}
        for container in pod["containers"]:
            assert {"name", "image"} <= set(container) <= CONTAINER
            assert {each["name"] for each in container["volumeMounts"]} <= volumes
            for variable in container["env"]:
                assert set(variable) in ({"name", "value"}, {"name", "valueFrom"})
                secret = variable["name"] in ("PGPASSWORD", "TFDML_TOKEN")
                assert secret == ("valueFrom" in variable), variable["name"]
            ports = {each["name"] for each in container.get("ports", ())}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                about = container.get(probe, {"tcpSocket": {"port": next(iter(ports), None)}})
                assert next(iter(about.values()))["port"] in ports | {None}
            quantity = re.compile(r"\d+(m|Mi|Gi)?")
            for amounts in container["resources"].values():
                assert all(quantity.fullmatch(each) for each in amounts.values())


def test_selectors_take_the_pods():
    labels = {
        owner["metadata"]["name"]: owner["spec"]["template"].get("metadata", {}).get("labels") for owner, _ in pods()
    }
    for each in objects():
        selector = each["spec"].get("selector", {})
        selector = selector.get("matchLabels", selector)
        assert not selector or selector in labels.values()


@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_commands_and_addresses_are_those_that_tfdml_takes(where):
    from tfdml.serving.index.stores.postgresql import read_address

    if where == "compose":
        services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
        commands = [each["command"] for each in services.values() if "command" in each]
        addresses = [services["service"]["environment"]["INDEX"]]
    else:
        containers = [each for _, pod in pods() for each in pod["containers"]]
        commands = [each["command"] for each in containers if "command" in each]
        addresses = [one["value"] for each in containers for one in each["env"] if one["name"] == "INDEX"]
    assert commands and addresses
    for command in commands:
        flags, source = flags_of(command)
        for flag in flags:
            assert re.search(rf'"{flag[2:].partition("=")[0]}"', source), flag
        addresses += [flag.partition("=")[2] for flag in flags if flag.startswith("--out=")]
    for address in addresses:
        assert read_address(address.removeprefix("postgresql:")).table == "photos"


def test_compose_has_what_its_services_name():
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(found) == {"name", "services", "volumes"}
    for service in found["services"].values():
        assert ("image" in service) != ("build" in service)
        assert set(service.get("depends_on", ())) <= set(found["services"])
        if "build" in service:
            place = DEPLOY / service["build"]["context"]
            assert place.resolve() == ROOT and (place / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", ()):
            name = volume.split(":")[0]
            assert name.startswith("../") or name in found["volumes"]
        # No password stands in a file.
        for name, value in service.get("environment", {}).items():
            assert not re.search("PASSWORD|TOKEN", name) or value.startswith("${"), name


@pytest.mark.parametrize("name", ["serve", "train"])
def test_images_copy_and_install_what_is_there(name):
    text = (DEPLOY / f"{name}.Dockerfile").read_text()
    words = re.findall(r"^(FROM|RUN|COPY|USER|WORKDIR|EXPOSE|ENV|HEALTHCHECK|CMD|ENTRYPOINT) ", text, re.MULTILINE)
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert words[0] == "FROM" and len(words) == len(lines)
    for sources in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE):
        assert all((ROOT / source).exists() for source in sources.split())
    setup = (ROOT / "setup.py").read_text()
    (extras,) = re.findall(r"/source\[(.*)\]", text)
    assert all(f'"{extra}": ' in setup for extra in extras.split(","))
    ignored = (DEPLOY / f"{name}.Dockerfile.dockerignore").read_text().splitlines()
    copied = {source for sources in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE) for source in sources.split()}
    assert copied == {line[1:] for line in ignored if line.startswith("!")}
    for module in re.findall(r"tfdml\.\w+(?= --)", text):
        assert Path(ROOT / f"{module.replace('.', '/')}.py").is_file()
