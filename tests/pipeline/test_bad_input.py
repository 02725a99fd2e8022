"""Each bad input: a clear error with a hint, the right exit code, and nothing lost."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from conftest import SOURCE, Cli, Done, Run, optimizing

pytestmark = pytest.mark.pipeline

# So that no profile of another file's tests is taken.
OWN_TRAINING = ("--train-seconds", "2.5")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("misspelt", "misspelt.toml"),
        ("other-server", "is for"),
        ("no-such-workload", "there is no workload"),
    ],
)
def test_a_bad_workload(here: Run, name: str, message: str) -> None:
    done = here(*optimizing(train_on=(name,)))
    assert done.code == 2, done.stderr
    assert message in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.parametrize(("name", "message"), [("fill-fails", "filling the database"), ("load-fails", "failed with exit code")])
def test_a_workload_that_fails(cli: Cli, name: str, message: str) -> None:
    done = cli.optimize(train_on=(name,))
    assert done.code == 1, done.stderr
    assert message in done.stderr
    assert "hint:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('colour = "red"\n', "colour"),
        ('toolchain = "gcc"\nprofile = "ir"\n', "needs toolchain"),
        ('toolchain = "gcc"\nlto = "thin"\nprofile = "gcc"\n', "LLVM"),
        ("profile = \n", "not TOML"),
    ],
)
def test_a_bad_recipe(here: Run, tmp_path: Path, content: str, message: str) -> None:
    recipe = tmp_path / "my.toml"
    recipe.write_text(content)
    done = here(*optimizing("--recipe", str(recipe)))
    assert done.code == 2, done.stderr
    assert message in done.stderr
    assert "hint:" in done.stderr


def test_a_tree_that_is_another_thing(here: Run, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = here(*optimizing("--source", str(tmp_path / "other")))
    assert done.code == 1
    assert "is not a smallserver source tree" in done.stderr


def test_a_damaged_tarball(cli: Cli, tmp_path: Path) -> None:
    tarball = tmp_path / "small.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        archive.add(SOURCE, arcname="small")
    tarball.write_bytes(tarball.read_bytes()[:-3000])
    done = cli.optimize("--source", str(tarball))
    assert done.code == 1
    assert "damaged" in done.stderr
    assert not list(cli.cache.glob("sources/*.partial"))


def test_a_compiler_that_is_not_there(here: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "old.toml"
    recipe.write_text('version = 3\nlto = "thin"\nprofile = "ir"\nscope = "hot"\n')
    done = here(*optimizing("--recipe", str(recipe)))
    assert done.code == 1
    assert "clang 3" in done.stderr
    assert "hint:" in done.stderr


def test_too_little_disk_is_said_before_the_build(cli: Cli) -> None:
    done = cli.optimize(env={"UPSHIFT_NEEDED_DISK_BYTES": str(10**18)})
    assert done.code == 1
    assert "disk" in done.stderr
    assert "plain build" not in done.stderr


@pytest.fixture(scope="module")
def resumed(cli: Cli) -> Done:
    """A run whose server ended in training, resumed with a post-linked one that answers wrongly."""
    done = cli.optimize(*OWN_TRAINING, env={"SMALLSERVER_FAULT": "crash", "SMALLSERVER_FAULT_IN": "instrumented-build"})
    assert done.code == 1, done.stderr
    assert "ended by itself" in done.stderr
    wrong = {"SMALLSERVER_FAULT": "wrong", "SMALLSERVER_FAULT_IN": "post-link"}
    return cli("optimize", "--resume", "last", "--json", "--no-install", env=wrong)


def test_a_server_that_fails_while_training_can_be_resumed(resumed: Done) -> None:
    assert resumed.code == 0, resumed.stderr


def test_a_post_linked_server_that_answers_wrongly_is_given_up(resumed: Done) -> None:
    result = resumed.result()
    assert result.builds[1].post_link == ""
    assert any("given up" in warning for warning in result.warnings)


def test_an_optimised_server_that_answers_wrongly_is_an_error(cli: Cli) -> None:
    wrong = {"SMALLSERVER_FAULT": "wrong", "SMALLSERVER_FAULT_IN": "optimised-build"}
    done = cli.optimize(*OWN_TRAINING, "--recipe", str(_without_bolt(cli)), env=wrong)
    assert done.code == 1, done.stderr
    assert "fail on the optimised server alone" in done.stderr


def _without_bolt(cli: Cli) -> Path:
    cli.cache.parent.mkdir(parents=True, exist_ok=True)
    recipe = cli.cache.parent / "without-bolt.toml"
    recipe.write_text('scope = "hot"\nlto = "thin"\nprofile = "ir"\n')
    return recipe
