# SPDX-License-Identifier: Apache-2.0
"""Two small OCI images made from the machine's static busybox, so that no registry is needed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from .packages import TestbedError

BUSYBOX = "localhost/busybox:1"
PAUSE = "localhost/pause:1"

APPLETS = ("sh", "sleep", "echo", "true", "false", "cat", "env")

_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def write_images(path: Path) -> None:
    """Write an OCI image layout with both images, as a tar file for ``ctr images import``.

    :raises TestbedError: busybox is not installed, or is not a static binary.
    """
    layer = image_layer()
    with tarfile.open(path, "w") as tar:
        manifests = [
            _image(tar, BUSYBOX, layer, ("sh",)),
            # The sandbox container only has to run until it is stopped.
            _image(tar, PAUSE, layer, ("sleep", "1000000")),
        ]
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": manifests}
        _add(tar, "index.json", _json(index))


def image_layer() -> bytes:
    """Return an uncompressed root file system: /bin/busybox, links to it, and empty folders."""
    program = shutil.which("busybox")
    if program is None:
        raise TestbedError("no busybox on this machine; apt-get install busybox-static")
    binary = Path(program).read_bytes()
    if b"/ld-linux" in binary[:4096]:
        raise TestbedError(f"{program} is not static; apt-get install busybox-static")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        _add(tar, "bin/busybox", binary, mode=0o755)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return buffer.getvalue()


def _image(tar: tarfile.TarFile, name: str, layer: bytes, command: Sequence[str]) -> object:
    """Add an image's blobs, and return its descriptor for the index."""
    config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _blob(tar, _CONFIG, _json(config)),
        "layers": [_blob(tar, _LAYER, gzip.compress(layer, compresslevel=1, mtime=0))],
    }
    descriptor = _blob(tar, _MANIFEST, _json(manifest))
    descriptor["annotations"] = {"io.containerd.image.name": name}
    return descriptor


def _blob(tar: tarfile.TarFile, media_type: str, data: bytes) -> dict[str, object]:
    digest = hashlib.sha256(data).hexdigest()
    _add(tar, f"blobs/sha256/{digest}", data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    tar.addfile(entry, io.BytesIO(data))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
