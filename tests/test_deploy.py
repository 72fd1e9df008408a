"""The files of `deploy/`: every flag, variable, path, port and setting in them is one that byleave has."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import yaml

import amounts
from byleave.cli.arguments import read_arguments
from byleave.cli.commands import COMMON, ROOT
from byleave.gateway.http_front import ROUTES
from byleave.store.address import KEY_VARIABLE, VARIABLE, StoreAddress, has_password, read_address
from command import byleave

TOP = Path(__file__).parents[1]
DEPLOY = TOP / "deploy"
USER = 10001
POLICY = "/etc/byleave/policy/gateway.toml"
KEY = "/etc/byleave/store.key"
VARIABLES = {VARIABLE, KEY_VARIABLE, "HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "PATH"}
VARIABLES |= {"PGPASSFILE", "PYTHONDONTWRITEBYTECODE", "POD_IP"}
UNITS = ("byleave-mcp.service", "byleave-mcp@.service")
# What takes from the sandbox of servers what it needs: namespaces, a /proc of its own, a host name. Tried with podman
# and the same filters: docs/deploy.md.
HARMFUL = {"RestrictNamespaces", "ProtectHostname", "ProtectProc", "ProcSubset", "ProtectKernelTunables"}
HARMFUL |= {"ProtectKernelLogs", "MemoryDenyWriteExecute", "PrivateUsers", "DynamicUser"}
SERVER_VARIABLES = set(re.findall(r"\$\{(\w+)\}", "".join((DEPLOY / "gateway.toml").read_text().splitlines()[3:])))


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile, with their words."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Containerfile").read_text())
    return [
        (word, rest.strip())
        for word, _blank, rest in (line.partition(" ") for line in text.splitlines())
        if word.isupper()
    ]


def said(name: str) -> str:
    return [rest for word, rest in instructions() if word == name][-1]


def environment_of_image() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in said("ENV").split())


def manifests() -> list[dict[str, Any]]:
    files = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def manifest(kind: str) -> dict[str, Any]:
    (found,) = [each for each in manifests() if each["kind"] == kind]
    return found


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = manifest("Deployment")["spec"]["template"]["spec"]
    return spec


def compose() -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return tree


def gateways() -> list[dict[str, Any]]:
    return [each for name, each in compose()["services"].items() if name.startswith("gateway")]


def unit(name: str) -> list[tuple[str, str]]:
    lines = (DEPLOY / "systemd" / name).read_text().splitlines()
    return [(key, value) for key, mark, value in (line.partition("=") for line in lines) if mark and key.isalpha()]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield every command line of byleave in these files."""
    yield "Containerfile", ["mcp", *json.loads(said("CMD"))]
    yield "Deployment", ["mcp", *pod()["containers"][0]["args"]]
    for name, service in compose()["services"].items():
        if name.startswith("gateway"):
            yield name, ["mcp", *service["command"]]
    for name in UNITS:
        for key, value in unit(name):
            if key.startswith("ExecStart"):
                program, *words = value.replace("%i", "8809").split()
                assert program == "/opt/byleave/bin/byleave"
                yield f"{name} {key}", words


@pytest.mark.parametrize(("place", "words"), list(commands()), ids=[place for place, _words in commands()])
def test_every_command_line_is_one_that_byleave_takes(place: str, words: list[str]) -> None:
    given = read_arguments(ROOT, COMMON, words)
    port = {"byleave-mcp@.service": "8809"}.get(place.split(maxsplit=1)[0], "8808")
    assert (given.one("http") or "").rpartition(":")[2] == port
    in_system = place.startswith("byleave-mcp")
    assert given.one("policy") == ("/etc/byleave/gateway.toml" if in_system else POLICY)
    assert given.one("root") == ("/srv/byleave" if in_system else "/workspace")


def test_the_policy_is_safe_for_a_team(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "gateway.toml", tmp_path)
    environment = dict.fromkeys(SERVER_VARIABLES, "word")
    given = ("--check", "--deploy", "--json", "--policy", "gateway.toml", "--http", "0.0.0.0:8808")
    done = byleave("mcp", *given, cwd=tmp_path, env=environment)
    of_this_machine = {"root_user", "file_writable", "own_code", "clock_unsynchronized", "debugging", "core_dumps"}
    found = {finding["code"] for finding in json.loads(done.out)["findings"]}
    assert found - of_this_machine - {"few_files"} == {"own_files"}, "the database is named by the environment"


def test_the_image_runs_as_a_numbered_user_from_the_wheel_of_this_checkout() -> None:
    assert said("USER") == f"{USER}:{USER}"
    assert said("EXPOSE") == "8808"
    assert [rest for word, rest in instructions() if word == "ARG"] == [
        "BUILD_BASE=python:3.11",
        "BASE=python:3.11-slim",
    ]
    assert [rest for word, rest in instructions() if word == "FROM"] == ["${BUILD_BASE} AS build", "${BASE}"]
    words = [rest for word, rest in instructions() if word == "RUN"]
    assert all("--require-hashes" in each or "pip install" not in each or "--no-index" in each for each in words)
    assert "gcc" not in " ".join(words)
    copied = [name for word, rest in instructions() if word == "COPY" for name in rest.split()[:-1]]
    sources = [name for name in copied if not name.startswith(("--", "/"))]
    assert [name for name in sources if not (TOP / name).exists()] == []
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    kept = [line[1:] for line in ignored[1:]]
    assert [name for name in sources if name not in kept and f"{Path(name).parent}/*.lock" not in kept] == []
    assert set(environment_of_image()) <= VARIABLES
    assert environment_of_image()["XDG_CONFIG_HOME"] == str(Path(KEY).parents[1])


def test_the_locks_of_the_image_are_part_of_that_of_development() -> None:
    pattern = re.compile(r"^[a-z0-9-]+==[^ ]+", re.MULTILINE)
    known = set(pattern.findall((TOP / "requirements-dev.lock").read_text()))
    for name in ("requirements.lock", "build.lock"):
        text = (DEPLOY / name).read_text()
        locked = set(pattern.findall(text))
        assert locked
        assert locked <= known, "run `make lock`"
        assert "://" not in text
    written = tomllib.loads((TOP / "pyproject.toml").read_text())
    for_build = {re.split(r"[\[><=]", each)[0] for each in written["build-system"]["requires"]}
    assert for_build <= {line.split("==")[0] for line in pattern.findall((DEPLOY / "build.lock").read_text())}
    project = written["project"]
    extras = [each for name in ("jwt", "otel", "postgres") for each in project["optional-dependencies"][name]]
    needed = {re.split(r"[\[><=]", each)[0] for each in (*project["dependencies"], *extras)}
    assert needed <= {line.split("==")[0] for line in pattern.findall((DEPLOY / "requirements.lock").read_text())}


@amounts.slow
def test_what_the_image_is_given_makes_a_wheel_with_its_launcher(tmp_path: Path) -> None:
    """A hook of the build that reads one more directory of the checkout would fail in the image alone."""
    copies = [rest.split() for word, rest in instructions() if word == "COPY" and not rest.startswith("--")]
    for *sources, target in copies:
        for name in sources:
            place = tmp_path / (target if target == name else f"{target}/{Path(name).name}")
            place.parent.mkdir(parents=True, exist_ok=True)
            copy = shutil.copytree if (TOP / name).is_dir() else shutil.copy
            copy(TOP / name, place)
    argv = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path / "made")]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, timeout=170)
    (wheel,) = (tmp_path / "made").glob("*.whl")
    assert any("/launcher" in name for name in ZipFile(wheel).namelist())


def test_probes_and_health_checks_ask_paths_that_the_gateway_has() -> None:
    container = pod()["containers"][0]
    port, peers = container["ports"]
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {name: each["path"] for name, each in asked.items()} == {
        "startupProbe": "/health",
        "livenessProbe": "/health",
        "readinessProbe": "/ready",
    }
    assert {each["port"] for each in asked.values()} == {port["name"]}
    assert (port["containerPort"], peers["containerPort"]) == (8808, 8809)
    checks = [said("HEALTHCHECK"), *(str(each["healthcheck"]["test"]) for each in gateways())]
    paths = [re.findall(r"http://127\.0\.0\.1:8808(/\w+)", text) for text in checks]
    assert [path for (path,) in paths if path not in ROUTES] == []
    assert {path for (path,) in paths} == {"/health", "/ready"}


def test_a_pod_is_as_restricted_as_the_standard_wants_it() -> None:
    spec, container = pod(), pod()["containers"][0]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (spec["automountServiceAccountToken"], manifest("ServiceAccount")["automountServiceAccountToken"]) == (
        False,
        False,
    )
    assert spec["serviceAccountName"] == manifest("ServiceAccount")["metadata"]["name"]
    kinds = {key for volume in spec["volumes"] for key in volume if key != "name"}
    assert kinds <= {"configMap", "secret", "emptyDir"}
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in spec["volumes"]}
    assert spec["terminationGracePeriodSeconds"] > 5 + 5 + 30, "the wait before, open requests, and workers"
    assert not any(key in spec for key in ("hostNetwork", "hostPID", "hostIPC", "hostUsers"))


def test_the_parts_of_the_manifests_belong_together() -> None:
    labels = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        manifest("Deployment")["spec"]["selector"]["matchLabels"],
        manifest("Service")["spec"]["selector"],
        manifest("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        manifest("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert selectors == [labels] * 4
    assert manifest("Deployment")["spec"]["replicas"] > manifest("PodDisruptionBudget")["spec"]["minAvailable"]
    assert manifest("Service")["spec"]["ports"][0]["targetPort"] == pod()["containers"][0]["ports"][0]["name"]
    policy = manifest("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"][0]["ports"][0]["port"] == 8808


def test_replicas_reach_each_other_and_no_one_else_reaches_their_port() -> None:
    container = pod()["containers"][0]
    given = read_arguments(ROOT, COMMON, ["mcp", *container["args"]])
    assert given.one("peers") == "$(POD_IP):8809"
    entries = {each["name"]: each for each in container["env"]}
    assert entries["POD_IP"]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    policy = manifest("NetworkPolicy")["spec"]
    replicas = [{"podSelector": policy["podSelector"]}]
    ports = [{"protocol": "TCP", "port": 8809}]
    assert [each for each in policy["ingress"] if each["ports"] == ports] == [{"from": replicas, "ports": ports}]
    assert [each for each in policy["egress"] if each["ports"] == ports] == [{"to": replicas, "ports": ports}]
    assert [port["port"] for port in manifest("Service")["spec"]["ports"]] == [8808]
    for name, service in compose()["services"].items():
        if name.startswith("gateway"):
            given = read_arguments(ROOT, COMMON, ["mcp", *service["command"]])
            assert given.one("peers") == f"{name}:8809"
            assert all(":8809:8809" not in port and port.endswith(":8808") for port in service["ports"])


def test_no_secret_is_written_down_and_every_variable_is_one_that_is_read() -> None:
    entries = {each["name"]: each for each in pod()["containers"][0]["env"]}
    assert set(entries) <= VARIABLES | SERVER_VARIABLES
    assert [name for name in SERVER_VARIABLES if "secretKeyRef" not in entries[name].get("valueFrom", {})] == []
    addresses = [entries[VARIABLE]["value"], *(each["environment"][VARIABLE] for each in gateways())]
    for address in addresses:
        assert isinstance(read_address(address), StoreAddress)
        assert not has_password(address)
    mounts = {each["mountPath"]: each for each in pod()["containers"][0]["volumeMounts"]}
    assert mounts[KEY]["subPath"] == "store.key", "a link would be refused"
    named = re.findall(r"=(/etc/byleave/[\w./]+)", entries[VARIABLE]["value"])
    assert {str(Path(name).parent) for name in named} <= set(mounts)
    for service in gateways():
        assert set(service["environment"]) <= VARIABLES | SERVER_VARIABLES
        assert all("${" in service["environment"][name] for name in SERVER_VARIABLES)
        targets = {each["target"] for each in service["secrets"]}
        assert targets == {KEY, service["environment"]["PGPASSFILE"]}
    assert all("file" in each for each in compose()["secrets"].values())
    whole = "".join(file.read_text() for file in DEPLOY.rglob("*") if file.suffix in (".yaml", ".service"))
    assert re.findall(r"PASSWORD:|stringData|BEGIN [A-Z ]*PRIVATE", whole) == []


def test_the_compose_file_holds_its_services_tightly() -> None:
    tree = compose()
    for service in gateways():
        assert (service["user"], service["read_only"], service["cap_drop"]) == (f"{USER}:{USER}", True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") and port.endswith(":8808") for port in service["ports"])
        assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        places = [volume.split(":")[:2] for volume in service["volumes"]]
        assert [place for _source, place in places] == [POLICY, "/run/postgresql", "/var/lib/byleave"]
        assert {source for source, _place in places if "/" not in source} <= set(tree["volumes"])
    database = tree["services"]["postgres"]
    assert (database["network_mode"], "ports" in database) == ("none", False)
    for service in tree["services"].values():
        assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
        assert "test" in service["healthcheck"]
    states = [volume for service in gateways() for volume in service["volumes"] if volume.startswith("state")]
    assert len(states) == len(set(states)) == len(gateways()), "two gateways do not share their files"


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_leaves_the_sandbox_what_it_needs(name: str) -> None:
    lines = unit(name)
    keys = {key for key, _value in lines}
    assert keys & HARMFUL == set()
    assert {"NoNewPrivileges", "ProtectSystem", "CapabilityBoundingSet", "RestrictAddressFamilies"} <= keys
    calls = " ".join(value for key, value in lines if key == "SystemCallFilter").split()
    assert {"@mount", "sethostname", "seccomp", "landlock_restrict_self"} <= set(calls)
    environment = dict(value.split("=", 1) for key, value in lines if key == "Environment")
    assert set(environment) <= VARIABLES
    assert environment["XDG_CONFIG_HOME"] == "/etc"
    directories = {f"/var/lib/{value}" for key, value in lines if key == "StateDirectory"}
    assert {environment["XDG_STATE_HOME"]} == directories


def test_both_units_are_hardened_alike() -> None:
    differing = {"Description", "ExecStart", "ExecStartPre", "Environment", "StateDirectory", "CacheDirectory"}
    first, second = ([each for each in unit(name) if each[0] not in differing] for name in UNITS)
    assert first == second


def test_the_filter_for_containers_is_that_of_the_units() -> None:
    tree = json.loads((DEPLOY / "seccomp.json").read_text())
    assert tree["defaultAction"] == "SCMP_ACT_ERRNO"
    (allowed,) = tree["syscalls"]
    named = {word for key, value in unit(UNITS[0]) if key == "SystemCallFilter" for word in value.split()}
    assert {word for word in named if not word.startswith("@")} <= set(allowed["names"])
    assert {"mount", "pivot_root", "unshare", "clone3", "openat2", "execve"} <= set(allowed["names"])
    assert {"bpf", "kexec_load", "init_module", "ptrace", "reboot", "perf_event_open"} & set(allowed["names"]) == set()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_reads_every_line_of_a_unit(tmp_path: Path, name: str) -> None:
    text = (DEPLOY / "systemd" / name).read_text().replace("/opt/byleave/bin/byleave", sys.executable)
    file = tmp_path / name.replace("@", "@8809")
    file.write_text(text)
    argv = ["systemd-analyze", "verify", "--man=no", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert [line for line in done.stderr.splitlines() if file.name in line] == []


def test_no_host_is_a_real_one() -> None:
    allowed = ("example.com", "example.org", "127.0.0.1")
    files = [file for file in DEPLOY.rglob("*") if file.is_file() and file.suffix != ".lock"]
    hosts = [
        host
        for file in files
        for host in re.findall(r"(?:https?|postgresql)://(?:[\w.]*@)?([\w.-]+)(?!@)\b", file.read_text())
        if not host.endswith(allowed)
    ]
    assert hosts == []
