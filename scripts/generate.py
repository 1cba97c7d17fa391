# SPDX-License-Identifier: Apache-2.0
"""Generate ``nri_scope/_gen`` from ``proto/``.

    python -m scripts.generate           write nri_scope/_gen anew
    python -m scripts.generate --check   exit 1 with a diff if it is not what proto/ gives

NRI and ttRPC become modules of the ``protobuf`` package with stubs by mypy-protobuf (protoc's own
``--pyi_out`` writes invalid Python for the enum member ``None``). The CRI becomes betterproto2
dataclasses with grpclib stubs. Neither half imports the other.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = "nri_scope/_gen"

# Our package name -> (folder below proto/, its one file).
PROTOBUF = {
    "nri": ("nri/pkg/api/v1alpha1", "api.proto"),
    "ttrpc": ("ttrpc", "ttrpc.proto"),
}
CRI = ("runtime/v1", "cri.proto")

HEADER = "# SPDX-License-Identifier: Apache-2.0\n"
PACKAGES = {
    "": "Code generated from proto/ by scripts/generate.py. Do not edit.",
    "nri": "NRI v1alpha1 messages (protobuf).",
    "ttrpc": "ttRPC's request and response (protobuf).",
    "cri": "The part of Kubernetes CRI v1 that we call (betterproto2 and grpclib).",
}


def protoc(folder: Path, arguments: Iterable[str]) -> None:
    """Run the protoc that grpcio-tools carries, with the plugins of this interpreter's venv.

    It runs in ``folder``, away from the project: betterproto2 formats its output with ruff, which
    would otherwise follow our own settings.
    """
    here = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": here + os.pathsep + os.environ.get("PATH", os.defpath)}
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr + "protoc failed")


def generate(destination: Path) -> None:
    """Write the generated packages as ``destination/nri_scope/_gen``."""
    package = destination / PACKAGE
    package.mkdir(parents=True)
    for name, (folder, file) in PROTOBUF.items():
        # The file is mapped to where its Python will live: protoc derives module names, and the
        # name under which the descriptor pool knows the file, from that path.
        protoc(
            destination,
            [
                f"-I{PACKAGE}/{name}={PROTO / folder}",
                f"--python_out={destination}",
                f"--mypy_out={destination}",
                f"{PACKAGE}/{name}/{file}",
            ],
        )
    cri = package / "cri"
    cri.mkdir()
    folder, file = CRI
    protoc(
        destination,
        [
            f"-I{PROTO}",
            f"--python_betterproto2_out={cri}",
            "--python_betterproto2_opt=client_generation=async",
            "--python_betterproto2_opt=server_generation=async",
            f"{folder}/{file}",
        ],
    )
    for name, summary in PACKAGES.items():
        (package / name / "__init__.py").write_text(f'{HEADER}"""{summary}"""\n')
    (cri / "py.typed").unlink()  # nri_scope/py.typed speaks for all
    for path in package.rglob("*.py*"):
        stamp_license(path)


def stamp_license(path: Path) -> None:
    """Put our licence line on top of a generated file, which is made from our own text."""
    text = path.read_text()
    if not text.startswith(HEADER):
        path.write_text(HEADER + re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE))


def files(package: Path) -> Mapping[str, str]:
    """Return the text of every generated file by its path below ``package``."""
    return {
        path.relative_to(package).as_posix(): path.read_text()
        for path in sorted(package.rglob("*.py*"))
        if path.suffix in {".py", ".pyi"}
    }


def drift(committed: Mapping[str, str], fresh: Mapping[str, str]) -> list[str]:
    """Return a unified diff, line by line, from what is committed to what would be generated."""
    lines: list[str] = []
    for name in sorted(committed.keys() | fresh.keys()):
        lines += difflib.unified_diff(
            committed.get(name, "").splitlines(),
            fresh.get(name, "").splitlines(),
            f"{PACKAGE}/{name}",
            f"{PACKAGE}/{name} (generated anew)",
            lineterm="",
        )
    return lines


def main() -> int:
    """Generate, or with ``--check`` compare; return the exit status."""
    parser = argparse.ArgumentParser(description="Generate nri_scope/_gen from proto/.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if they differ")
    check: bool = parser.parse_args().check
    target = ROOT / PACKAGE
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = Path(folder) / PACKAGE
        if check:
            difference = drift(files(target), files(fresh))
            if difference:
                print("\n".join(difference))
                print(f"{PACKAGE} has drifted from proto/: run `make generate`", file=sys.stderr)
            return 1 if difference else 0
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(fresh, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
