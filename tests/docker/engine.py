# SPDX-License-Identifier: Apache-2.0
"""A real Docker Engine with NRI, in its own folder and mount namespace, as a child process.

It has no bridge, changes no packet filter and no sysctl, and its containers have no network.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tests.runtime.testbed.images import image_layer
from tests.runtime.testbed.packages import TestbedError

from .programs import Programs

BOOT_S = 60.0
"""Seconds for dockerd to serve its API; it takes two."""
STOP_S = 30.0
"""Seconds between SIGTERM and SIGKILL."""
IMAGE = "nri-scope/busybox"
IMAGE_VARIABLE = "OF_IMAGE=1"
"""Variable of the image."""

# runc 1.1 refuses the time namespace, which dockerd asks for on new kernels.
_RUNC = r"""#!/usr/bin/python3
import json, os, sys
words = sys.argv[1:]
if "create" in words:
    path = os.path.join(words[words.index("--bundle") + 1], "config.json")
    with open(path) as file:
        spec = json.load(file)
    kinds = spec["linux"].get("namespaces", [])
    spec["linux"]["namespaces"] = [each for each in kinds if each["type"] != "time"]
    with open(path, "w") as file:
        json.dump(spec, file)
os.execvp("runc", ["runc", *words])
"""


class ApiError(Exception):
    """An error of the Engine's API."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Engine:
    """One Docker Engine; start it with `running`."""

    def __init__(self, programs: Programs, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self.api_socket = folder / "docker.sock"
        self.nri_socket = folder / "nri" / "nri.sock"
        self.plugins = folder / "plugins"
        self.plugin_configs = folder / "conf.d"
        self.log = folder / "dockerd.log"
        self._config = folder / "daemon.json"
        self._pid_file = folder / "docker.pid"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of dockerd."""
        return int(self._pid_file.read_text())

    def configure(self, **nri: object) -> None:
        """Write daemon.json, with these members of ``nri-opts``."""
        runc = self.folder / "runc"
        runc.write_text(_RUNC)
        runc.chmod(0o755)
        options = {
            "enable": True,
            "socket-path": str(self.nri_socket),
            "plugin-path": str(self.plugins),
            "plugin-config-path": str(self.plugin_configs),
        }
        config = {
            "hosts": [f"unix://{self.api_socket}"],
            "data-root": str(self.folder / "data"),
            "exec-root": str(self.folder / "exec"),
            "pidfile": str(self._pid_file),
            "bridge": "none",
            "iptables": False,
            "ip6tables": False,
            "ip-forward": False,
            "userland-proxy": False,
            "storage-driver": "vfs",
            "cgroup-parent": f"/{self.folder.name}",
            "runtimes": {"wrapped": {"path": str(runc)}},
            "default-runtime": "wrapped",
            "nri-opts": options | nri,
        }
        self._config.write_text(json.dumps(config))

    def start(self) -> None:
        """Start dockerd; return when it serves its API and has the image."""
        self.nri_socket.parent.mkdir(mode=0o700, exist_ok=True)
        if not self._config.exists():
            self.configure()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                # Its mounts, and what it writes to /run, vanish with the namespace's last process.
                (
                    *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
                    'mount -t tmpfs tmpfs /run && exec "$@"',
                    *("sh", self._programs.dockerd, "--config-file", self._config),
                ),
                env={"PATH": self._programs.path, "HOME": str(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C must reach only the test, which takes it down.
                start_new_session=True,
            )
        deadline = time.monotonic() + BOOT_S
        while not self._serves():
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = self.log.read_text(errors="replace").splitlines()[-15:]
                raise TestbedError("\n".join(["dockerd did not come up", *lines]))
            time.sleep(0.05)
        self._import_image()

    def reload(self) -> None:
        """Let dockerd read daemon.json again, as ``systemctl reload docker`` does."""
        before = self.nri_socket.stat() if self.nri_socket.exists() else None
        os.kill(self.pid, signal.SIGHUP)
        deadline = time.monotonic() + BOOT_S
        while True:
            with suppress(FileNotFoundError):
                now = self.nri_socket.stat()
                if before is None or now.st_mtime_ns != before.st_mtime_ns:
                    return
            if time.monotonic() > deadline:
                raise TestbedError("dockerd made no new socket")
            time.sleep(0.01)

    def take_down(self) -> None:
        """Remove the containers, stop everything and remove the folder.

        :raises TestbedError: processes, mounts or cgroups are left behind.
        """
        process = self._process
        if process is not None and process.poll() is None:
            try:
                for container in self.containers():
                    with suppress(ApiError):
                        self.remove(container)
            finally:
                process.terminate()
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        left = list(self._processes())
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        left_groups = list(self._remove_cgroups())
        shutil.rmtree(self.folder)
        mounts = Path("/proc/self/mountinfo").read_text()
        if left or left_groups or str(self.folder) in mounts:
            raise TestbedError(f"left behind: {left} {left_groups}")

    # -- API ----------------------------------------------------------------------------------

    def create(self, name: str, command: Sequence[str] = ("sleep", "1000"), **body: object) -> str:
        """Create a container without network; return its id."""
        host = {"NetworkMode": "none"} | dict(_mapping(body.pop("HostConfig", {})))
        message = {"Image": IMAGE, "Cmd": list(command), "HostConfig": host, **body}
        created = self.call("POST", f"/containers/create?name={quote(name)}", message)
        return str(_mapping(created)["Id"])

    def start_container(self, container: str) -> None:
        """Start a container."""
        self.call("POST", f"/containers/{container}/start")

    def inspect(self, container: str) -> dict[str, object]:
        """Return what ``docker inspect`` prints."""
        return dict(_mapping(self.call("GET", f"/containers/{container}/json")))

    def remove(self, container: str) -> None:
        """Kill and remove a container."""
        self.call("DELETE", f"/containers/{container}?force=1&v=1")

    def containers(self) -> list[str]:
        """Return the ids of all containers."""
        listed = self.call("GET", "/containers/json?all=1")
        assert isinstance(listed, list)
        return [str(_mapping(each)["Id"]) for each in listed]

    def config_json(self, container: str) -> dict[str, object]:
        """Return the bundle's config.json of a started container."""
        (path,) = (self.folder / "exec").glob(f"**/{container}/config.json")
        return dict(_mapping(json.loads(path.read_text())))

    def call(self, method: str, path: str, body: object = None) -> object:
        """Call the API; return the decoded answer.

        :raises ApiError: the status is not one of success.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
        kind = "application/x-tar" if isinstance(body, bytes) else "application/json"
        connection = _UnixConnection(self.api_socket)
        try:
            connection.request(method, path, data, {"Content-Type": kind} if data else {})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            message = _mapping(json.loads(content)).get("message", "") if content else ""
            raise ApiError(response.status, str(message))
        is_json = response.getheader("Content-Type") == "application/json"
        # The answer to an import is a stream of objects.
        return json.loads(content) if is_json and content and kind == "application/json" else None

    # -- inside -------------------------------------------------------------------------------

    def _serves(self) -> bool:
        with suppress(OSError, http.client.HTTPException, ApiError):
            self.call("GET", "/_ping")
            return True
        return False

    def _import_image(self) -> None:
        changes = "".join(
            f"&changes={quote(each)}" for each in (f"ENV {IMAGE_VARIABLE}", 'CMD ["sleep","1000"]')
        )
        self.call(
            "POST",
            f"/images/create?fromSrc=-&repo={quote(IMAGE)}&tag=latest{changes}",
            image_layer(),
        )

    def _processes(self) -> Iterator[int]:
        mark = str(self.folder).encode()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                is_other = entry.name.isdigit() and int(entry.name) != os.getpid()
                if is_other and mark in (entry / "cmdline").read_bytes():
                    yield int(entry.name)

    def _remove_cgroups(self) -> Iterator[Path]:
        root = Path("/sys/fs/cgroup")
        for top in [root / self.folder.name, *root.glob(f"*/{self.folder.name}")]:
            for folder, _, _ in os.walk(top, topdown=False):
                try:
                    Path(folder).rmdir()
                except OSError:
                    yield Path(folder)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


@contextmanager
def running(programs: Programs, *, start: bool = True) -> Iterator[Engine]:
    """Provide an engine for the duration of a block, and remove it completely afterwards.

    ``start=False``: do not start it, so that it can be configured before.
    """
    # Not $TMPDIR: paths of unix sockets are limited to 107 bytes.
    engine = Engine(programs, Path(tempfile.mkdtemp(prefix="nsd-", dir="/tmp")))
    try:
        if start:
            engine.start()
        yield engine
    finally:
        engine.take_down()
