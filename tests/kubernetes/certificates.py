# SPDX-License-Identifier: Apache-2.0
"""Certificates and kubeconfigs of the test cluster, made with openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.runtime.testbed.packages import TestbedError

SERVER = "https://10.77.0.2:443"
_SUBJECTS = {
    "apiserver": "/CN=kube-apiserver",
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
}
_NAMES = {
    "apiserver": "DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:10.77.0.2",
}


def node_address(number: int) -> str:
    """Return the address of a node, from 1."""
    return f"10.77.0.{number + 1}"


def write_certificates(folder: Path, nodes: int = 1) -> None:
    """Write an authority, a key of service accounts, certificates and ``NAME.conf`` files."""
    subjects, names = dict(_SUBJECTS), dict(_NAMES)
    for number in range(1, nodes + 1):
        subjects[f"node{number}"] = f"/O=system:nodes/CN=system:node:node{number}"
        names[f"node{number}"] = f"DNS:node{number},IP:{node_address(number)}"
    folder.mkdir()
    _openssl(
        folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 30 -subj /CN=ca"
    )
    _openssl(folder, "genrsa -out sa.key 2048")
    for name, subject in subjects.items():
        _openssl(
            folder,
            f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj {subject}",
        )
        extensions = "keyUsage=digitalSignature,keyEncipherment\n"
        extensions += "extendedKeyUsage=clientAuth,serverAuth\n"
        if name in names:
            extensions += f"subjectAltName={names[name]}\n"
        (folder / "extensions").write_text(extensions)
        _openssl(
            folder,
            f"x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30"
            f" -out {name}.crt -extfile extensions",
        )
        (folder / f"{name}.conf").write_text(_kubeconfig(folder, name))


def _kubeconfig(folder: Path, name: str) -> str:
    return f"""\
apiVersion: v1
kind: Config
current-context: test
contexts: [{{name: test, context: {{cluster: test, user: {name}}}}}]
clusters: [{{name: test, cluster: {{server: "{SERVER}", certificate-authority: {folder}/ca.crt}}}}]
users:
- name: {name}
  user: {{client-certificate: {folder}/{name}.crt, client-key: {folder}/{name}.key}}
"""


def _openssl(folder: Path, arguments: str) -> None:
    done = subprocess.run(
        ["openssl", *arguments.split()], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise TestbedError(f"openssl {arguments}: {done.stderr}")
