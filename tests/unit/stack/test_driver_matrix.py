"""drivers/matrix.toml has the drivers that it must have, in the versions that their languages' own files pin."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from upshift.errors import UpshiftError, UsageError
from upshift.paths import shipped
from upshift.stack.driver_matrix.matrix import Driver, chosen, read_matrix
from upshift.stack.driver_matrix.operations import OPERATIONS

FOLDER = shipped("drivers")
MATRIX = read_matrix()
WANTED = {
    *("connector-j", "mariadb-connector-j", "mysql2", "go-sql-driver", "pymysql", "mysqlclient", "connector-python"),
    *("libmysqlclient", "pgjdbc", "pgx", "psycopg"),
}
BASIC = {"connect", "prepared", "batch", "error", "reconnect", "tls_refused", "tls", "tls_ended"}


def text(file: str) -> str:
    return (FOLDER / file).read_text()


def has(file: str) -> list[str]:
    """The operations that the program with this file must have."""
    language = file.partition("/")[0]
    return [name for name, each in OPERATIONS.items() if language in (each.languages or (language,))]


def pinned(driver: Driver) -> str:
    """The version that the language's own file has."""
    name = re.escape(driver.package.rpartition(":")[2])
    if driver.language == "java":
        found = re.search(rf"<artifactId>{name}</artifactId>\s*<version>([^<]+)<", text("java/pom.xml"))
    elif driver.language == "node":
        return str(json.loads(text("node/package-lock.json"))["packages"][f"node_modules/{driver.package}"]["version"])
    elif driver.language == "go":
        found = re.search(rf"{name} v(\S+)", text("go/go.mod"))
    else:
        both = text("python/requirements.txt") + text("python/requirements-mysqlclient.txt")
        found = re.search(rf"^{name}==(\S+)", both, re.M)
    assert found
    return found[1]


def test_every_driver_is_there_once() -> None:
    names = [each.name for each in MATRIX.driver]
    assert sorted(names) == sorted(WANTED)


@pytest.mark.parametrize("driver", MATRIX.driver, ids=lambda each: each.name)
def test_a_driver_has_a_default_that_changes_nothing_and_a_bad_and_a_good_setting(driver: Driver) -> None:
    first, *others = driver.setting
    assert (first.kind, first.options, first.use, first.operations) == ("default", {}, {}, ())
    assert {each.kind for each in others} == {"bad", "good"}
    assert len({each.name for each in driver.setting}) == len(driver.setting)
    assert {*driver.checks} >= BASIC
    assert ("compressed" in driver.checks) == bool(driver.compressed)


@pytest.mark.parametrize("driver", [each for each in MATRIX.driver if each.language != "c"], ids=lambda each: each.name)
def test_the_version_is_the_one_that_is_installed(driver: Driver) -> None:
    assert pinned(driver) == driver.version


def test_locked_packages_have_hashes_and_no_hosts() -> None:
    locked = json.loads(text("node/package-lock.json"))["packages"]
    assert all("integrity" in each for name, each in locked.items() if name)
    # npm repeats where a package asks for money; where it came from would be "resolved".
    assert not any("resolved" in each for each in locked.values())
    files = ("python/requirements.txt", "python/requirements-mysqlclient.txt", "go/go.sum")
    assert not any("://" in text(file) for file in files)
    both = text("python/requirements.txt") + text("python/requirements-mysqlclient.txt")
    packages = re.findall(r"^\w.*\n.*", both, re.M)
    assert len(packages) > 4 and all("==" in each and "--hash=sha256:" in each for each in packages)


@pytest.mark.parametrize("file", ["java/src/main/java/upshift/Operations.java", "node/operations.mjs", "go/main.go"])
def test_each_program_knows_every_operation(file: str) -> None:
    assert all(name in text(file) for name in has(file))


@pytest.mark.parametrize("file", ["python/operations.py", "c/operations.c"])
def test_so_do_those_of_python_and_c(file: str) -> None:
    assert all(f'"{name}"' in text(file) for name in has(file))


def test_a_setting_is_about_what_its_drivers_program_has() -> None:
    connector_j, pymysql = (next(each for each in MATRIX.driver if each.name == name) for name in ("connector-j", "pymysql"))
    assert "new_order" in connector_j.about(connector_j.setting[0]) and "new_order" not in pymysql.about(pymysql.setting[0])
    for driver in MATRIX.driver:
        assert all(driver.about(setting) for setting in driver.setting), driver.name


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('kind = "default"', 'kind = "good"'), "default"),
        (('operations = ["fetch"]', 'operations = ["fly"]'), "no operation is called fly"),
        (("[[driver]]", "[[driver"), "matrix.toml"),
        (('language = "java"', 'language = "cobol"'), "language"),
    ],
)
def test_a_matrix_with_a_mistake_is_refused(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    file = tmp_path / "matrix.toml"
    before = text("matrix.toml")
    assert change[0] in before
    file.write_text(before.replace(*change))
    with pytest.raises(UpshiftError, match=said) as raised:
        read_matrix(file)
    assert raised.value.hint


def test_drivers_are_chosen_by_name() -> None:
    assert [each.name for each in chosen(MATRIX, ("pgx", "pymysql"))] == ["pgx", "pymysql"]
    assert chosen(MATRIX, ()) == MATRIX.driver
    with pytest.raises(UsageError, match="there is no driver 'odbc'") as raised:
        chosen(MATRIX, ("odbc",))
    assert "connector-j" in raised.value.hint
