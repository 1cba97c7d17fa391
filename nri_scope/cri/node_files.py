# SPDX-License-Identifier: Apache-2.0
"""Files of this node about a container: its cgroups and its config.json.

The container's process id comes from the runtime. All other input is untrusted: a container may
move its processes between cgroups, and choose names. So files are only read in folders of the
container, below the mount of the cgroups and beside the runtime's own process.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, cast

from nri_scope.specs import Json, Spec
from nri_scope.specs.cgroup_values import values_of_v1, values_of_v2

BUNDLE_MAX: Final = 1 << 20
"""Maximum bytes of a config.json."""
_FILE_MAX = 4_096
"""Maximum bytes of a cgroup file, and of a file of a process."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_CONTROLLERS = "cpu", "cpuset", "memory", "pids", "hugetlb"
_FILES = re.compile(
    r"cpu\.(shares|cfs_quota_us|cfs_period_us|weight|max)|cpuset\.(cpus|mems)|pids\.max"
    r"|memory\.(limit_in_bytes|soft_limit_in_bytes|memsw\.limit_in_bytes|max|low|swap\.max)"
    r"|hugetlb\.[0-9]+[KMG]B\.(limit_in_bytes|max)"
)
_BUNDLES = (
    "/run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json",
    "/run/containers/storage/overlay-containers/{}/userdata/config.json",
)
"""Paths of config.json in the default configurations of containerd and CRI-O."""


class NodeFiles:
    """Files of this node; other roots are for tests."""

    def __init__(self, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> None:
        self._proc = proc
        self._cgroups = cgroups

    def folders(self, pid: int, names: tuple[str, ...]) -> dict[str, str]:
        """Return the container's folder by cgroup controller, "" for cgroup v2.

        {} if the process is not in a folder of one of these names: it is not the container's, or
        cannot be seen from here. Folders below it, into which the container may have moved the
        process, are left out.
        """
        places: dict[str, str] = {}
        for line in self._text(f"{self._proc}/{pid}/cgroup").splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            folder = _folder_named(path, names)
            if folder:
                places.update(dict.fromkeys(controllers.split(","), folder))
        return places

    def limits(self, folders: Mapping[str, str]) -> dict[str, Json]:
        """Return the limits in these folders by OCI path; see `specs.cgroup_values`."""
        if os.path.exists(f"{self._cgroups}/cgroup.controllers"):  # noqa: PTH110
            return values_of_v2(self._contents(folders[""]) if "" in folders else {})
        contents: dict[str, str] = {}
        for controller in _CONTROLLERS:
            if controller in folders:
                contents |= self._contents(f"/{controller}{folders[controller]}")
        return values_of_v1(contents)

    def config(self, pid: int, container: str) -> Spec | None:
        """Return the config.json of a container; None if it is not known.

        ``pid``: its first process, 0 if unknown. The file is searched in the folder of that
        process's parent, which belongs to the container (conmon) or to its pod (containerd's shim),
        and in the default places.
        """
        if not _ID.fullmatch(container):
            return None
        paths = [path.format(container) for path in _BUNDLES]
        parent = self._parent(pid) if pid else 0
        if parent > 1:
            folder = f"{self._proc}/{parent}/cwd"
            with suppress(OSError):
                is_own = container in Path(folder).readlink().parts
                own = "config.json" if is_own else f"../{container}/config.json"
                paths.insert(0, f"{folder}/{own}")
        for path in paths:
            try:
                spec = cast(Json, json.loads(_read(path, BUNDLE_MAX, trusted=True)))
            except (OSError, ValueError, RecursionError):
                continue
            if isinstance(spec, dict):
                return spec
        return None

    def _contents(self, folder: str) -> dict[str, str]:
        place = f"{self._cgroups}{folder}"
        if not f"{os.path.realpath(place)}/".startswith(f"{os.path.realpath(self._cgroups)}/"):
            return {}
        with suppress(OSError):
            names = filter(_FILES.fullmatch, os.listdir(place))  # noqa: PTH208
            return {name: self._text(f"{place}/{name}").strip() for name in names}
        return {}

    def _parent(self, pid: int) -> int:
        # The name in parentheses may contain any character.
        _, _, rest = self._text(f"{self._proc}/{pid}/stat").rpartition(")")
        with suppress(ValueError, IndexError):
            return int(rest.split()[1])
        return 0

    def _text(self, path: str) -> str:
        with suppress(OSError, ValueError):
            return _read(path, _FILE_MAX).decode(errors="replace")
        return ""


def _folder_named(path: str, names: tuple[str, ...]) -> str:
    """Return ``path`` up to the folder of one of these names; "" if there is none."""
    parts = path.split("/")
    if ".." in parts:
        return ""
    for number, part in enumerate(parts):
        # With systemd's cgroup driver, the folder is PREFIX-NAME.scope.
        if any(name and (part == name or part.endswith(f"-{name}.scope")) for name in names):
            return "/".join(parts[: number + 1])
    return ""


def _read(path: str, size: int, *, trusted: bool = False) -> bytes:
    """Return the content of a regular file of at most ``size`` bytes. Raises OSError, ValueError.

    ``trusted``: refuse files that others than root and this user own.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path} is not a regular file")
        if trusted and status.st_uid not in (0, os.geteuid()):
            raise ValueError(f"{path} belongs to another user")
        content = file.read(size + 1)
    if len(content) > size:
        raise ValueError(f"{path} is too large")
    return content
