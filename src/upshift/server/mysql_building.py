"""What a MySQL is built with and packed from: CMake's options, headers worth precompiling, programs and plugins."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

# The parts of a server that Debian's and Ubuntu's packages of MySQL switch on (the CMakeCache.txt in Debian's mysql-source
# has them), with the same system libraries: the server that is packaged takes the place of theirs. Unit tests, NDB and
# MySQL Router are packages of their own.
PARTS: Mapping[str, str] = {
    "WITH_UNIT_TESTS": "OFF",
    "WITH_NDB": "OFF",
    "WITH_NDBCLUSTER_STORAGE_ENGINE": "OFF",
    "WITH_ROUTER": "OFF",
    "WITH_MYSQLX": "ON",
    "WITH_AUTHENTICATION_CLIENT_PLUGINS": "ON",
    "WITH_AUTHENTICATION_WEBAUTHN": "ON",
    **dict.fromkeys(
        (
            f"WITH_{library}"
            for library in (
                "SSL",
                "ICU",
                "ZSTD",
                "LZ4",
                "ZLIB",
                "PROTOBUF",
                "CURL",
                "FIDO",
                "KERBEROS",
                "LDAP",
                "SASL",
                "MECAB",
                "EDITLINE",
            )
        ),
        "system",
    ),
}
# Where the distribution's server seeks its files when nothing else is configured. Paths below the installation's own
# prefix stay relative to the executable, so that the package starts from any folder.
PLACES: Mapping[str, str] = {
    "SYSCONFDIR": "/etc/mysql",
    "MYSQL_DATADIR": "/var/lib/mysql",
    "MYSQL_UNIX_ADDR": "/var/run/mysqld/mysqld.sock",
    "INSTALL_SECURE_FILE_PRIVDIR": "/var/lib/mysql-files",
    "INSTALL_MYSQLKEYRINGDIR": "/var/lib/mysql-keyring",
}

_SQL_HEADERS = (
    "sql/sql_class.h",
    "sql/sql_lex.h",
    "sql/item_func.h",
    "sql/handler.h",
    "sql/field.h",
    "sql/table.h",
    "sql/mysqld.h",
)
# What many files of sql take much of their time for; too much for those of other folders, which hardly use them.
_SERVER_HEADERS = (
    *_SQL_HEADERS,
    "sql/item_sum.h",
    "sql/parse_tree_nodes.h",
    "sql/sql_optimizer.h",
    "sql/thd_raii.h",
    "sql/rpl_rli.h",
    "sql/log_event.h",
    "sql/dd/cache/dictionary_client.h",
)
_DICTIONARY_HEADERS = tuple(
    f"sql/dd/impl/{name}"
    for name in (
        "types/table_impl.h",
        "system_views/system_view_definition_impl.h",
        "transaction_impl.h",
        "system_registry.h",
    )
)
_INNODB_HEADERS = tuple(
    f"storage/innobase/include/{name}"
    for name in (
        "univ.i",
        "ha_prototypes.h",
        "buf0buf.h",
        "trx0trx.h",
        "row0mysql.h",
        "fil0fil.h",
        "log0log.h",
        "dict0dd.h",
        "lock0lock.h",
        "srv0start.h",
        "clone0clone.h",
    )
)

PRECOMPILED: Mapping[str, tuple[str, ...]] = {
    "sql": _SERVER_HEADERS,
    "sql/auth": (*_SERVER_HEADERS, "sql/auth/sql_auth_cache.h", "sql/auth/auth_internal.h"),
    "sql/dd": (*_SERVER_HEADERS, *_DICTIONARY_HEADERS),
    # The last two bring in all of Boost.Geometry.
    "sql/gis": (*_SQL_HEADERS, *(f"sql/gis/{name}" for name in ("geometries_traits.h", "mbr_utils.h", "relops.h"))),
    "sql/server_component": _SQL_HEADERS,
    "storage/innobase": (*_INNODB_HEADERS, "sql/sql_class.h", "storage/innobase/handler/ha_innodb.h"),
    "storage/perfschema": (*_SQL_HEADERS, "storage/perfschema/pfs_instr_class.h"),
    "storage/temptable": _SQL_HEADERS,
    "storage/myisam": ("storage/myisam/myisamdef.h",),
    "storage/myisammrg": ("storage/myisammrg/myrg_def.h",),
    "mysys": ("include/my_sys.h", "mysys/mysys_priv.h"),
    "plugin/semisync": _SQL_HEADERS,
}
"""By folder of the source."""

# What MySQL's CMakeLists.txt asks $ENV for, and where CMake looks for the system libraries of PARTS and for its generators.
VARIABLES = (
    "PB2WORKDIR",
    "COMPRESS_DEBUG_SECTIONS",
    "OPTIMIZE_DEBUG_BUILDS",
    *(
        name
        for package in ("BISON", "CURL", "Curses", "OpenSSL", "PkgConfig", "Protobuf", "ZLIB", "absl", "utf8_range")
        for name in (f"{package}_ROOT", f"{package.upper()}_ROOT", f"{package}_DIR")
    ),
    "OPENSSL_ROOT_DIR",
)

_PACKAGED = (
    "mysql",
    "mysqladmin",
    "mysqlbinlog",
    "mysqlcheck",
    "mysqldump",
    "mysqlimport",
    "mysqlshow",
    "mysqlslap",
    "mysql_config_editor",
    "mysql_secure_installation",
    "mysql_tzinfo_to_sql",
    "my_print_defaults",
    "innochecksum",
    "ibd2sdi",
    "perror",
)
PLUGINS = "plugin_output_directory"
_PLUGIN = re.compile(rf"^build {PLUGINS}/(\S+\.so):", re.M)
# Of the source's shared objects those that its own tests and examples load.
_ONLY_FOR_TESTS = re.compile(r"test|example|udf_|mock|^qa_|^adt_null|^auth\.|mypluglib|conflicting|message_emit")
_SHARED_TEXTS = ("dictionary.txt", "messages_to_clients.txt", "messages_to_error_log.txt")


def plugins(tree: Path) -> tuple[str, ...]:
    """The shared objects that a package holds, as targets of the configured build folder."""
    found = _PLUGIN.findall((tree / "build.ninja").read_text())
    return tuple(sorted(f"{PLUGINS}/{name}" for name in found if not _ONLY_FOR_TESTS.search(name)))


def installed(source: Path, tree: Path, server: Path) -> Mapping[str, Path]:
    """What a package holds, by path in the package."""
    programs = tree / "runtime_output_directory"
    clients = {f"bin/{name}": programs / name for name in _PACKAGED if (programs / name).is_file()}
    languages = {f"share/{entry.name}": entry for entry in (tree / "share").iterdir() if (entry / "errmsg.sys").is_file()}
    texts = {f"share/{name}": source / "share" / name for name in ("charsets", *_SHARED_TEXTS)}
    loaded = {f"lib/plugin/{Path(file).name}": tree / file for file in plugins(tree)}
    return {"bin/mysqld": server, "LICENSE": source / "LICENSE", **clients, **languages, **texts, **loaded}
