# SPDX-License-Identifier: Apache-2.0
"""Upstream's generator, run by the program in ``go/``."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.specs import Json, Spec
from tests.interop.toolchain import Unavailable, find_go

SOURCES = Path(__file__).parent / "go"


def build(folder: Path) -> Path:
    """Build the program in `folder`, return its path; raise Unavailable without Go or modules."""
    wanted = (line for line in (SOURCES / "go.mod").read_text().splitlines() if line[:3] == "go ")
    go = find_go(next(wanted).split()[1])
    # Separate from the build, to distinguish a missing network from a broken program.
    listed = _run(go, "list", "-deps", ".")
    if listed.returncode:
        raise Unavailable(f"Go modules are unavailable: {listed.stderr.strip().splitlines()[-1]}")
    program = folder / "refspec"
    built = _run(go, "build", "-tags=nri_no_wasm", "-o", program, ".")
    if built.returncode:
        raise RuntimeError(f"go build failed:\n{built.stderr}")
    return program


def _run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    # A toolchain downloaded as a module must not use the GOROOT of the one that downloaded it.
    environment = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    return subprocess.run(
        command, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False
    )


def generate(
    program: Path, cases: Sequence[tuple[Spec, api.ContainerAdjustment]]
) -> list[Spec | str]:
    """Return each spec adjusted by the generator, or the generator's error."""
    lines = (
        json.dumps(
            {
                "spec": _with_blockio_resolved(spec),
                "adjust": base64.b64encode(adjustment.SerializeToString()).decode(),
            }
        )
        for spec, adjustment in cases
    )
    run = subprocess.run(
        [program], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    return [answer.get("error") or answer for answer in answers]


def comparable(spec: Spec) -> Json:
    """Return `spec` without values that Go omits if empty, always writes, or does not have."""
    plain = _without_empty(_with_blockio_resolved(spec))
    if isinstance(plain, dict):
        for name in ("cdiDevices", "nri", "ociVersion"):
            plain.pop(name, None)
        process = plain.get("process")
        if isinstance(process, dict):
            process.pop("cwd", None)
            if process.get("user") == {"uid": 0, "gid": 0}:
                del process["user"]
    return _without_empty(plain)


def _with_blockio_resolved(spec: Spec) -> Spec:
    """Resolve the block I/O class as the program in ``go/`` does."""
    copy: Spec = json.loads(json.dumps(spec))
    linux = copy.get("linux")
    resources = linux.get("resources") if isinstance(linux, dict) else None
    if isinstance(resources, dict) and "blockIO" in resources:
        resources["blockIO"] = {"weight": 7}
    return copy


def _without_empty(value: Json) -> Json:
    if isinstance(value, dict):
        inner = {key: _without_empty(each) for key, each in value.items()}
        # Zeros are kept; Go omits false.
        return {key: each for key, each in inner.items() if each or type(each) is int}
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    return value
