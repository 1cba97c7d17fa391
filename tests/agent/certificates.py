# SPDX-License-Identifier: Apache-2.0
"""Certificates for mutual TLS, made with openssl."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


class Certificates:
    """Two authorities, with certificates of the service and of clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for authority in ("ca", "stranger"):
            _openssl(
                folder,
                f"req -x509 {_KEY} -keyout {authority}.key -out {authority}.crt -days 2"
                f" -subj /CN={authority}",
            )
        self._issue("server", "ca", 2, "subjectAltName=IP:127.0.0.1\n")
        self._issue("good", "ca", 2)
        self._issue("expired", "ca", 0)
        self._issue("foreign", "stranger", 2)

    def options(self) -> tuple[str | Path, ...]:
        """Return the options of an agent."""
        folder = self.folder
        return (
            *("--tls-cert", folder / "server.crt"),
            *("--tls-key", folder / "server.key"),
            *("--tls-client-ca", folder / "ca.crt"),
        )

    def client(self, name: str) -> ssl.SSLContext:
        """Return the context of a client with a certificate; "" for none."""
        context = ssl.create_default_context(cafile=self.folder / "ca.crt")
        context.set_alpn_protocols(["h2"])
        if name:
            context.load_cert_chain(self.folder / f"{name}.crt", self.folder / f"{name}.key")
        return context

    def _issue(self, name: str, authority: str, days: int, extensions: str = "") -> None:
        folder = self.folder
        _openssl(folder, f"req {_KEY} -keyout {name}.key -out {name}.csr -subj /CN={name}")
        (folder / "extensions").write_text(extensions)
        _openssl(
            folder,
            f"x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial"
            f" -days {days} -out {name}.crt -extfile extensions",
        )


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
