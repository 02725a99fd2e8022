"""Variables of the environment that would change what is built or measured are refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from plenty import plenty

from upshift import plan
from upshift.errors import UsageError
from upshift.options import Options
from upshift.plan import prepare, prepare_measuring
from upshift.stages.work import Work


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plenty(tmp_path, monkeypatch)


def prepared(**options: object) -> Work:
    return prepare(Options.model_validate(options), allow_install=False, say=lambda _text: None)


BUILD_VARIABLES = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "OBJCPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
    *("COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS", "CPPFLAGS", "LD_RUN_PATH", "BISON_PKGDATADIR"),
    *("CMAKE_PREFIX_PATH", "CMAKE_INCLUDE_PATH", "CMAKE_LIBRARY_PATH", "CMAKE_TOOLCHAIN_FILE", "CMAKE_C_COMPILER_LAUNCHER"),
    *("PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PB2WORKDIR", "OpenSSL_ROOT", "OPENSSL_ROOT_DIR", "Protobuf_DIR"),
)


@pytest.mark.parametrize("value", ["/opt/other", ""])
@pytest.mark.parametrize("name", BUILD_VARIABLES)
def test_a_variable_that_no_key_would_know_is_refused_where_something_is_built(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "_install", lambda *_given, **_named: pytest.fail("installed"))
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"the environment has {name}, which would change the build") as caught:
        prepared()
    assert caught.value.hint.startswith(f"unset {name};")
    monkeypatch.setattr(plan, "_install", lambda *_given, **_named: None)
    assert prepare_measuring(Options(held_out=()), (), allow_install=False, say=lambda _text: None)


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "LD_BIND_NOW", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_CONF", "TCMALLOC_SAMPLE_PARAMETER"]
)
def test_a_variable_that_servers_would_inherit_is_refused_where_they_are_measured_or_trained(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variant whose text moves has an LD_PRELOAD of its own: it alone would be without the allocator of the shell."""

    def measuring() -> object:
        return prepare_measuring(Options(held_out=()), (), allow_install=False, say=lambda _text: None)

    monkeypatch.setattr(plan, "_install", lambda *_given, **_named: pytest.fail("installed"))
    monkeypatch.setenv(name, "/usr/lib/libjemalloc.so")
    for refused in (prepared, measuring):
        with pytest.raises(UsageError, match=f"the environment has {name}, which would change each server") as caught:
            refused()
        assert caught.value.hint.startswith(f"unset {name}; ") and "a variant's `environment`" in caught.value.hint
        assert caught.value.exit_code == 2
    monkeypatch.setattr(plan, "_install", lambda *_given, **_named: None)
    monkeypatch.setenv(name, "")
    assert prepared() and measuring(), "empty, it changes nothing"


def test_all_variables_that_are_refused_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPATH", "CMAKE_PREFIX_PATH"):
        monkeypatch.setenv(name, "/opt/other")
    with pytest.raises(UsageError, match="CMAKE_PREFIX_PATH, CPATH") as caught:
        prepared()
    assert "unset CMAKE_PREFIX_PATH CPATH;" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["CFLAGS", "LDFLAGS", "LD_LIBRARY_PATH", "SOURCE_DATE_EPOCH", "CMAKE_BUILD_PARALLEL_LEVEL", "PYENV_ROOT"]
)
def test_a_variable_that_changes_no_build_may_be_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert prepared()
