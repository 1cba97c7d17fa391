# SPDX-License-Identifier: Apache-2.0
"""Write the zip file of a bundle. The same input gives the same bytes."""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

_MODE = stat.S_IFREG | 0o600
_LEVEL = 6
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest timestamp that a zip can store. Real timestamps would differ between runs."""


def pack(target: Path, files: Mapping[str, bytes | Path]) -> int:
    """Create ``target``, readable by its owner only; return its size in bytes. Raises OSError.

    ``files`` maps each name in the archive, in order, to its content or to the path of a file.
    """
    descriptor = os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w+b") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
            for name, content in files.items():
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                # 3 is Unix. The default would depend on the operating system.
                entry.create_system = 3
                entry.external_attr = _MODE << 16
                with archive.open(entry, "w") as stream:
                    if isinstance(content, bytes):
                        stream.write(content)
                    else:
                        with content.open("rb") as source:
                            shutil.copyfileobj(source, stream, 1 << 20)
        file.flush()
        os.fsync(descriptor)
        return os.fstat(descriptor).st_size
