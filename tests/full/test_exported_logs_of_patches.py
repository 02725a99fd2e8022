"""What a telemetry component exports of a prepared statement: the text with its values, on stock and on a patched server."""

from __future__ import annotations

import http.server
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from marks import only_full
from real_server import initialised, started

from upshift.cli.test import MYSQLD, PATCHED_MYSQLD
from upshift.native.programs import build_programs
from upshift.shell import SystemShell

pytestmark = only_full

_SCRIPT = """
[transactions.look]
statements = ["SELECT word FROM t WHERE id = :id"]
[variables.id]
uniform = [4242, 4242]
"""
_EXPORTED_WITHIN_S = 30.0


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """An endpoint of OTLP over HTTP, and the bodies that it was sent."""
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/logs", bodies
        finally:
            server.shutdown()


@pytest.mark.parametrize("variable", [MYSQLD, PATCHED_MYSQLD])
def test_exported_logs_have_the_values_of_parameters(variable: str, tmp_path: Path) -> None:
    if not os.environ.get(variable) or not os.environ.get(MYSQLD):
        pytest.skip(f"{variable} names no server")
    binary, built = os.environ[variable], Path(os.environ[MYSQLD]).resolve().parents[1]
    if not (built / "plugin_output_directory" / "component_telemetry.so").is_file():
        pytest.skip("the server has no telemetry component")
    script = tmp_path / "script.toml"
    script.write_text(_SCRIPT)
    shell = SystemShell()
    try:
        load = build_programs(shell, say=print) / "upshift-load"
    finally:
        shell.close()
    places = (f"--lc-messages-dir={built}/share", f"--plugin-dir={built}/plugin_output_directory", "--secure-file-priv=")
    data = initialised(binary, tmp_path / "data", places)
    with collector() as (endpoint, bodies):
        telemetry = (
            "--loose-telemetry.log_enabled=ON",
            f"--loose-telemetry.otel_exporter_otlp_logs_endpoint={endpoint}",
            "--loose-telemetry.otel_blrp_schedule_delay=200",
        )
        with started(binary, data, (*places, *telemetry, "--mysqlx=OFF")) as server:
            server.run("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, word VARCHAR(9))")
            server.run("INSTALL COMPONENT 'file://component_telemetry'")
            url = f"mysql://root@/d?socket={server.socket}"
            run = ("run", "--protocol", "prepared", "--connections", "1", "--max-transactions", "3", "--server", url)
            subprocess.run((str(load), "script", str(script), *run), check=True, capture_output=True, timeout=60)
            until_s = time.monotonic() + _EXPORTED_WITHIN_S
            while not any(b"SELECT word FROM t WHERE id = 4242" in body for body in bodies):
                assert time.monotonic() < until_s, "no exported text has the value"
                time.sleep(0.2)
