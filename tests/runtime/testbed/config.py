# SPDX-License-Identifier: Apache-2.0
"""containerd's configuration for the testbed, with all files in one folder with a short path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from .images import PAUSE


@dataclass(frozen=True)
class Layout:
    """Paths of one containerd. ``folder`` must have a short path, as it contains sockets."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def runc_root(self) -> Path:
        return self.folder / "runc"

    @property
    def config(self) -> Path:
        return self.folder / "config.toml"

    @property
    def log(self) -> Path:
        return self.folder / "containerd.log"

    @property
    def cri_socket(self) -> Path:
        return self.folder / "c.sock"

    @property
    def nri_socket(self) -> Path:
        return self.folder / "nri" / "nri.sock"

    @property
    def notify_socket(self) -> Path:
        return self.folder / "ready.sock"

    @property
    def plugins(self) -> Path:
        """Folder of the plugins that containerd launches, named ``NN-name``."""
        return self.folder / "plugins"

    @property
    def plugin_configs(self) -> Path:
        return self.folder / "conf.d"

    @property
    def cgroup(self) -> str:
        """Cgroup of all pods of this containerd, below each hierarchy's root."""
        return f"/{self.folder.name}"


def render(series: str, layout: Layout, registration: str) -> str:
    """Return containerd's TOML for a series: version 2 for 1.x, version 3 since 2.0.

    ``registration`` is the registration timeout of plugins, such as ``5s``.
    """
    version, cri = (2, _cri_1(layout)) if series.startswith("1.") else (3, _cri_2(layout))
    return f"version = {version}\n{_common(layout, registration)}{cri}"


def _common(at: Layout, registration: str) -> str:
    return f"""\
root = {_toml(at.root)}
state = {_toml(at.state)}

[grpc]
  address = {_toml(at.cri_socket)}

[plugins."io.containerd.internal.v1.opt"]
  path = {_toml(at.folder / "opt")}

[plugins."io.containerd.nri.v1.nri"]
  disable = false
  disable_connections = false
  socket_path = {_toml(at.nri_socket)}
  plugin_path = {_toml(at.plugins)}
  plugin_config_path = {_toml(at.plugin_configs)}
  plugin_registration_timeout = {_toml(registration)}
"""


# restrict_oom_score_adj: without CAP_SYS_RESOURCE runc fails to lower a score.
# The native snapshotter copies the 2 MB root file system: it works on any file system, and
# leaves no overlay mounts.
def _cri_1(at: Layout) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""
[{cri}]
  sandbox_image = {_toml(PAUSE)}
  restrict_oom_score_adj = true

[{cri}.containerd]
  snapshotter = "native"
{_runtime(cri, at)}"""


def _cri_2(at: Layout) -> str:
    runtime, images = (
        'plugins."io.containerd.cri.v1.runtime"',
        'plugins."io.containerd.cri.v1.images"',
    )
    return f"""
[{runtime}]
  restrict_oom_score_adj = true

[{images}]
  snapshotter = "native"

[{images}.pinned_images]
  sandbox = {_toml(PAUSE)}
{_runtime(runtime, at)}"""


def _runtime(section: str, at: Layout) -> str:
    """Return TOML for runc with a separate state folder, without CNI: pods use the host network."""
    return f"""
[{section}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[{section}.containerd.runtimes.runc.options]
  Root = {_toml(at.runc_root)}

[{section}.cni]
  conf_dir = {_toml(at.folder / "cni")}
"""


def _toml(value: object) -> str:
    """Return a TOML basic string; JSON's escapes are a subset of TOML's."""
    return json.dumps(str(value))
