# SPDX-License-Identifier: Apache-2.0
"""Generate ``nri_scope/_gen`` from ``proto/``.

    python -m scripts.generate           replace nri_scope/_gen
    python -m scripts.generate --check   print a diff and exit 1 if nri_scope/_gen is out of date

NRI and ttRPC become modules of the ``protobuf`` package with stubs by mypy-protobuf (protoc's own
``--pyi_out`` writes invalid Python for the enum member ``None``). The CRI and the agent's service
become betterproto2 dataclasses with grpclib stubs. Neither half imports the other.
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

# Package below nri_scope/_gen -> (folder below proto/, file in it).
PROTOBUF = {
    "nri": ("nri/pkg/api/v1alpha1", "api.proto"),
    "ttrpc": ("ttrpc", "ttrpc.proto"),
}
BETTERPROTO = {
    "cri": ("runtime/v1", "cri.proto"),
    "agent": ("agent/v1", "agent.proto"),
}

HEADER = "# SPDX-License-Identifier: Apache-2.0\n"
PACKAGES = {
    "": "Code generated from proto/ by scripts/generate.py. Do not edit.",
    "nri": "NRI v1alpha1 messages (protobuf).",
    "ttrpc": "ttRPC's request and response (protobuf).",
    "cri": "A subset of Kubernetes CRI v1 (betterproto2 and grpclib).",
    "agent": "The service of `nri-scope agent` (betterproto2 and grpclib).",
}


def protoc(folder: Path, arguments: Iterable[str]) -> None:
    """Run the protoc of grpcio-tools with the plugins of this interpreter's virtual environment.

    It runs in ``folder``, outside the project: betterproto2 formats its output with ruff, which
    would otherwise use the project's settings.
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
        # Map the .proto file to the path of its Python package: protoc derives the module name
        # and the file's name in the descriptor pool from that path.
        protoc(
            destination,
            [
                f"-I{PACKAGE}/{name}={PROTO / folder}",
                f"--python_out={destination}",
                f"--mypy_out={destination}",
                f"{PACKAGE}/{name}/{file}",
            ],
        )
    for name, (folder, file) in BETTERPROTO.items():
        target = package / name
        target.mkdir()
        # The agent's reflection service needs descriptors.
        descriptors = ["--python_betterproto2_opt=google_protobuf_descriptors"]
        protoc(
            destination,
            [
                f"-I{PROTO}",
                f"--python_betterproto2_out={target}",
                "--python_betterproto2_opt=client_generation=async",
                "--python_betterproto2_opt=server_generation=async",
                *(descriptors if name == "agent" else ()),
                f"{folder}/{file}",
            ],
        )
        (target / "py.typed").unlink()  # nri_scope/py.typed covers all packages
    for name, summary in PACKAGES.items():
        (package / name / "__init__.py").write_text(f'{HEADER}"""{summary}"""\n')
    for path in package.rglob("*.py*"):
        stamp_license(path)


def stamp_license(path: Path) -> None:
    """Add the licence line to a generated file, as its source has that licence too."""
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
    """Return the lines of a unified diff from the committed to the freshly generated code."""
    lines: list[str] = []
    for name in sorted(committed.keys() | fresh.keys()):
        lines += difflib.unified_diff(
            committed.get(name, "").splitlines(),
            fresh.get(name, "").splitlines(),
            f"{PACKAGE}/{name}",
            f"{PACKAGE}/{name} (generated)",
            lineterm="",
        )
    return lines


def main() -> int:
    """Generate, or with ``--check`` compare; return the exit status."""
    parser = argparse.ArgumentParser(description="Generate nri_scope/_gen from proto/.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 on a difference")
    check: bool = parser.parse_args().check
    target = ROOT / PACKAGE
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = Path(folder) / PACKAGE
        if check:
            difference = drift(files(target), files(fresh))
            if difference:
                print("\n".join(difference))
                print(f"{PACKAGE} does not match proto/: run `make generate`", file=sys.stderr)
            return 1 if difference else 0
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(fresh, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
