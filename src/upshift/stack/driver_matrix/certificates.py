"""A certificate authority and a certificate for a server on the loopback address, made by openssl."""

from __future__ import annotations

import shutil
from pathlib import Path

from upshift.errors import MissingTool
from upshift.shell import Command, Shell
from upshift.values import Value

_NEW = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")


class Certificates(Value):
    """PEM files."""

    ca: Path
    certificate: Path
    key: Path


def make_certificates(shell: Shell, folder: Path) -> Certificates:
    """Made in ``folder``, which others than its owner may enter. Raises MissingTool without openssl."""
    if shutil.which("openssl") is None:
        raise MissingTool("there is no openssl to make certificates with", "apt-get install openssl")
    folder.mkdir(mode=0o755)
    made = Certificates(ca=folder / "ca.pem", certificate=folder / "certificate.pem", key=folder / "key.pem")
    authority = folder / "ca-key.pem"
    log = folder / "openssl.log"
    shell.run(Command((*_NEW, "-subj", "/CN=upshift", "-out", str(made.ca), "-keyout", str(authority))), log=log)
    signed = ("-CA", str(made.ca), "-CAkey", str(authority), "-out", str(made.certificate), "-keyout", str(made.key))
    names = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE")
    shell.run(Command((*_NEW, "-subj", "/CN=127.0.0.1", *names, *signed)), log=log)
    return made
