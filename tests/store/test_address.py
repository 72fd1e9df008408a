"""Where a store is: what is read as an address, and that no password is ever shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from byleave.errors import ConfigErrors, InputError, StateError
from byleave.policy.load import compile_policy
from byleave.store.address import AddressProblem, StoreAddress, chosen_store, file_problem, has_password, read_address
from command import byleave, environment

SECRET = "s3cret-word"
WITH_PASSWORD = [
    f"postgresql://me:{SECRET}@db.example.com/byleave",
    f"postgresql://me@db.example.com/byleave?password={SECRET}",
    f"postgresql://db.example.com/byleave?sslmode=require&sslpassword={SECRET}",
]


@pytest.mark.parametrize("text", ["sqlite:", "sqlite://", "sqlite:///"])
def test_the_users_own_files_are_the_default(text: str) -> None:
    assert read_address(text) is None
    assert chosen_store({}, {}) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "postgresql",
        "mysql://h/d",
        "sqlite:///x.db",
        "postgresql:/h",
        "http://h",
        "postgresql://h/d\n",
        "POSTGRESQL://h",
    ],
)
def test_what_is_no_address_is_refused_without_being_repeated(text: str) -> None:
    found = read_address(f"{text}{SECRET}")
    assert isinstance(found, AddressProblem)
    assert SECRET not in found.problem + found.hint


BROKEN = [
    "postgresql://me:{}/x@db/byleave",
    "postgresql://me:{}?x@db/byleave",
    "postgresql://me:x@{}@db/byleave",
    "postgresql://me:100%{}@db/byleave",
    "postgresql://me:%00{}@db/byleave",
    "postgresql://me:{}/byleave",
    "postgresql://[::1]:{}/byleave",
    "postgresql://a,b:{}/byleave",
    "postgresql://db/byleave?password=x@{}",
    "postgresql://db/byleave?password=%{}",
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_password_that_is_not_escaped_is_refused_without_being_repeated(text: str) -> None:
    found = read_address(text.format(SECRET))
    assert isinstance(found, AddressProblem)
    assert SECRET not in found.problem + found.hint
    assert file_problem(text.format(SECRET)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "postgresql:///byleave?host=/run/postgresql",
        "postgresql://me@/byleave",
        "postgresql://me:a%40b%2Fc%25@[::1]:5432/byleave",
        "postgresql://a:1,b:2,c/byleave?target_session_attrs=read-write",
        "postgres://%2Frun%2Fpostgresql/byleave",
    ],
)
def test_what_libpq_reads_is_an_address(text: str) -> None:
    assert isinstance(read_address(text), StoreAddress)


@pytest.mark.parametrize("query", ["password=a&{}", "{}", "password={}=x", "x{}=1"])
def test_a_parameter_that_libpq_cannot_read_is_not_repeated(query: str) -> None:
    database = pytest.importorskip("byleave.store.postgres.database")
    address = read_address(f"postgresql://127.0.0.1:1/byleave?{query.format(SECRET)}")
    assert isinstance(address, StoreAddress)
    with pytest.raises(StateError, match="cannot be read") as caught:
        database.connect(address)
    assert SECRET not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize("text", WITH_PASSWORD)
def test_a_password_is_for_the_library_alone(text: str) -> None:
    found = read_address(text)
    assert isinstance(found, StoreAddress)
    assert (found.url, found.shown) == (text, "postgresql://db.example.com/byleave")
    assert has_password(text)
    assert file_problem(text) is not None


def test_the_environment_counts_before_the_file() -> None:
    settings = {"store": {"url": "postgresql://file/x"}}
    assert str(chosen_store(settings, {"BYLEAVE_STORE": "postgresql://env/x"})).count("env") == 2
    assert chosen_store(settings, {"BYLEAVE_STORE": "sqlite:///"}) is None
    assert str(chosen_store(settings, {"BYLEAVE_STORE": ""})).count("file") == 2
    with pytest.raises(InputError, match="BYLEAVE_STORE: this is no address"):
        chosen_store({}, {"BYLEAVE_STORE": "nonsense"})


@pytest.mark.parametrize("url", [*WITH_PASSWORD, f"mysql://{SECRET}"])
def test_a_file_with_a_password_or_nonsense_is_refused_and_not_shown(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        compile_policy({"store": {"url": url}}, root=str(tmp_path))
    assert SECRET not in str(caught.value)
    (tmp_path / "p.toml").write_text(f'[store]\nurl = "{url}"\n')
    done = byleave("check", "read", "x", "--policy", "p.toml", "--root", str(tmp_path), cwd=tmp_path)
    assert done.code == 2
    assert SECRET not in done.out + done.err


def test_a_store_of_a_project_file_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "byleave.toml").write_text('[store]\nurl = "postgresql://theirs/x"\n')
    assert byleave("trust", "--yes", cwd=tmp_path).code == 0
    done = byleave("policy", "show", cwd=tmp_path)
    assert "store holds only in your own file" in done.err
    assert byleave("audit", "list", cwd=tmp_path).code == 0


def test_a_store_that_cannot_be_reached_says_so_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    own = {"BYLEAVE_STORE": f"postgresql://me:{SECRET}@127.0.0.1:1/x", "BYLEAVE_STORE_KEY": "ab" * 32}
    for words in (["audit", "list"], ["mcp", "--check"], ["approvals", "list"], ["doctor"]):
        done = byleave(*words, cwd=tmp_path, env=own)
        assert done.code in (1, 2)
        assert "postgresql://127.0.0.1:1/x" in done.out + done.err
        assert SECRET not in done.out + done.err


def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    (tmp_path / "psycopg").mkdir()
    (tmp_path / "psycopg" / "__init__.py").write_text("raise ImportError('not here', name='psycopg')\n")
    own = {"BYLEAVE_STORE": "postgresql://h/x", "PYTHONPATH": str(tmp_path), "BYLEAVE_STORE_KEY": "ab" * 32}
    done = subprocess.run(
        [sys.executable, "-m", "byleave", "audit", "list"],
        cwd=tmp_path,
        env=environment(own),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "byleave[postgres]" in done.stderr
