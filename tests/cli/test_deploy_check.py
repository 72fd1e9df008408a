"""`byleave mcp --check --deploy` on real files: what it finds, where, and that it shows no secret."""

import json
from pathlib import Path
from typing import Any

import pytest

from byleave.analysis.deployment import CODES
from byleave.cli.deploy_check import gather_facts
from byleave.policy.dirs import find_homes
from byleave.policy.load import Workspace
from command import byleave

CANARY = "canary-5Tg9"
RISKY = f"""\
[servers.shop]
command = ["python3", "-c", "pass", "--password={CANARY}"]
env = {{ API_TOKEN = "{CANARY}", PASSED_TOKEN = "${{SHOP_TOKEN}}", PGPASSWORD = "${{PGPASSWORD}}" }}

[servers.far]
url = "http://far.example.com/mcp"
headers = {{ Authorization = "Bearer {CANARY}" }}

[defaults]
deny_on_missing_agent = false

[gateway]
approve = "client"
access_log = true
"""
TOKEN = "sha256:" + "0" * 64
CAREFUL = f"""\
[servers.far]
url = "https://far.example.com/mcp"
headers = {{ Authorization = "Bearer ${{FAR_TOKEN}}" }}

[agents.backend]
token = "{TOKEN}"
allow.servers = ["far"]

[gateway]
require_identity = true
rate = 600
max_result = 1000000
access_log = true
new_tools = "ask"
trusted_proxies = ["192.0.2.7"]

[audit]
keep_days = 365

[store]
url = "postgresql://byleave@db.example.com/byleave?sslmode=verify-full"
"""


def checked(place: Path, policy: str, *arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    (place / "gateway.toml").write_text(policy)
    given = ("mcp", "--check", "--deploy", "--json", "--policy", "gateway.toml", *arguments)
    done = byleave(*given, cwd=place, env=environment)
    assert CANARY not in done.out + done.err
    assert done.err == ""
    return done.code, json.loads(done.out)


def places(found: dict[str, Any]) -> dict[str, str]:
    return {finding["code"]: finding["where"] for finding in found["findings"]}


def test_errors_have_a_place_and_no_secret_and_exit_with_1(tmp_path: Path) -> None:
    store = f"postgresql://byleave:{CANARY}@db.example.com/byleave"
    code, found = checked(tmp_path, RISKY, BYLEAVE_STORE=store, BYLEAVE_STORE_KEY=CANARY, PGPASSWORD=CANARY)
    assert (code, found["ok"]) == (1, False)
    where = places(found)
    assert {each: where.get(each) for each in ("client_approves", "unknown_agents", "store_plain", "store_lent")} == {
        "client_approves": "gateway.toml:13",
        "unknown_agents": "gateway.toml:10",
        "store_plain": "BYLEAVE_STORE",
        "store_lent": "gateway.toml:1",
    }
    assert {"no_identity", "plain_http", "server_plain_http", "server_open", "store_password"} <= set(where)
    assert where["store_password_exposed"] == "PGPASSWORD"
    (first, second) = [each["message"] for each in found["findings"] if each["code"] == "secret_in_file"]
    assert "shop has API_TOKEN and a secret in its command or URL written" in first
    assert "far has Authorization written" in second


def test_a_careful_configuration_has_no_error_of_its_own(tmp_path: Path) -> None:
    key = Path(find_homes({"BYLEAVE_HOME": str(tmp_path / "home")}).config, "store.key")
    key.parent.mkdir(parents=True, mode=0o700)
    key.write_text("0" * 64)
    key.chmod(0o400)
    _code, found = checked(tmp_path, CAREFUL, "--http", "0.0.0.0:8808", BYLEAVE_HOME=str(tmp_path / "home"))
    of_the_machine = {"root_user", "file_writable", "clock_unsynchronized", "debugging", "core_dumps", "few_files"}
    assert set(places(found)) - of_the_machine - {"own_code"} == set()
    assert found["ok"] is not any(each["severity"] == "error" for each in found["findings"])
    key.chmod(0o444)
    _code, found = checked(tmp_path, CAREFUL, BYLEAVE_HOME=str(tmp_path / "home"))
    assert places(found)["store_key_readable"] == str(key)


def test_files_that_others_can_change_are_found(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    code, found = checked(tmp_path / "open", CAREFUL, "--http", "127.0.0.1:1")
    assert code == 1
    assert str(tmp_path / "open") in [each["where"] for each in found["findings"] if each["code"] == "file_writable"]
    (tmp_path / "open" / "gateway.toml").chmod(0o666)
    _code, found = checked(tmp_path / "open", CAREFUL, "--http", "127.0.0.1:1")
    files = [each["where"] for each in found["findings"] if each["code"] == "file_writable"]
    assert str(tmp_path / "open" / "gateway.toml") in files


def test_text_names_the_fix_and_counts(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text(RISKY)
    done = byleave("mcp", "--check", "--deploy", "--policy", "gateway.toml", cwd=tmp_path)
    assert done.code == 1
    assert "error client_approves gateway.toml:13\n" in done.out
    assert '  fix: write [gateway] approve = "person"\n' in done.out
    assert " things that are looked at\n" in done.out
    assert CANARY not in done.out + done.err


def test_a_policy_that_cannot_be_used_is_no_finding(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text('[gateway]\ntrusted_proxies = ["0.0.0.0/0"]\n')
    done = byleave("mcp", "--check", "--deploy", "--json", "--policy", "gateway.toml", cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "this is every address there is" in done.err


def test_deploy_belongs_to_check(tmp_path: Path) -> None:
    done = byleave("mcp", "--deploy", cwd=tmp_path)
    assert (done.code, "--check --deploy" in done.err) == (2, True)
    done = byleave("mcp", "--check", "--http", "127.0.0.1:1", cwd=tmp_path)
    assert (done.code, "exclude each other" in done.err) == (2, True)


def test_the_page_lists_every_code_with_its_severity() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "deploy.md").read_text()
    rows = [line.split(" | ")[:2] for line in page.splitlines() if line.startswith("| `")]
    listed = {name.strip("| `"): severity for codes, severity in rows for name in codes.split(", ")}
    assert {code: listed.get(code) for code in CODES} == {code: severity for code, (severity, _fix) in CODES.items()}


ADDRESSES = [
    ("postgresql://db.example.com/x", ("db.example.com",), "prefer"),
    (
        "postgresql://u@a.example.com:5432,b.example.com:5433/x?sslmode=verify-full",
        ("a.example.com", "b.example.com"),
        "",
    ),
    ("postgresql://[::1]:5432/x", ("::1",), "prefer"),
    ("postgresql://%2Frun%2Fpostgresql/x", ("/run/postgresql",), "prefer"),
    ("postgresql:///x?host=db.example.org&sslmode=require", ("db.example.org",), "require"),
    ("postgresql://localhost/x?hostaddr=198.51.100.7", ("localhost", "198.51.100.7"), "prefer"),
    ("postgresql:///x", ("",), "prefer"),
]


@pytest.mark.parametrize(("address", "hosts", "mode"), ADDRESSES, ids=[each[0] for each in ADDRESSES])
def test_hosts_and_sslmode_are_read_as_libpq_reads_them(
    tmp_path: Path, address: str, hosts: tuple[str, ...], mode: str
) -> None:
    workspace = Workspace(str(tmp_path))
    facts = gather_facts(workspace, workspace.load(), None, {"BYLEAVE_STORE": address})
    assert facts.store is not None
    assert (facts.store.hosts, facts.store.sslmode) == (hosts, mode or "verify-full")


def test_the_environment_says_what_the_address_leaves_out(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    environment = {"BYLEAVE_STORE": "postgresql:///x", "PGHOST": "db.example.com", "PGSSLMODE": "verify-full"}
    facts = gather_facts(workspace, workspace.load(), "127.0.0.1", environment)
    assert facts.store is not None
    assert (facts.store.hosts, facts.store.sslmode) == (("db.example.com",), "verify-full")
