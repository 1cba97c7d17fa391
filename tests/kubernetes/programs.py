# SPDX-License-Identifier: Apache-2.0
"""Programs of the test cluster, built or unpacked into a cache folder outside the checkout.

Kubernetes, etcd, Helm and the newest containerd are built from the Go module proxy, once: 12
minutes and 4 GB of Go's caches on two cores. The rest are Debian packages, unpacked without
installation.
``python -m tests.kubernetes.programs`` builds everything that is missing, and with ``containerd``
only the newest containerd, in one to two minutes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.runtime.testbed.packages import (
    Binaries,
    SeriesUnavailable,
    TestbedError,
    containerd_binaries,
    locked,
)

KUBERNETES = "1.34.4"
HELM = "3.19.5"
KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)
RUNTIMES = {
    "containerd-1.7": "1.7",
    "containerd-2.1": "2.1",
    "containerd-2.4": "2.4.2",
    "cri-o": "cri-o-1.37",
}
"""Runtime by profile: a series of Debian's containerd, a version of containerd to build, or a
folder beside the others with programs of CRI-O, which has no package: crio, pinns and conmon."""

_PACKAGES = {
    "runc": "usr/sbin/runc",
    "busybox-static": "bin/busybox",
    "containernetworking-plugins": "usr/lib/cni/bridge",
}
_STAGING = re.compile(r"^\s*(\S+) => \./staging/", re.MULTILINE)


@dataclass(frozen=True)
class Programs:
    """Folders with the programs of a cluster."""

    runtime: Path
    kubernetes: Path
    packages: Path

    @property
    def path(self) -> str:
        """Value of PATH for the processes of a node."""
        folders = (self.runtime, self.kubernetes, *self._package_folders())
        return os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)])

    @property
    def network_plugins(self) -> Path:
        """Folder of the CNI plugins."""
        return self.packages / "usr/lib/cni"

    def _package_folders(self) -> tuple[Path, Path]:
        return self.packages / "usr/sbin", self.packages / "bin"


def programs(profile: str) -> Programs:
    """Return the programs for a profile of `RUNTIMES`; build and fetch what is missing.

    :raises TestbedError: a download or a build failed.
    """
    folder = cache_folder()
    with locked("kubernetes"):
        packages = folder / "packages"
        for package, program in _PACKAGES.items():
            if not (packages / program).exists():
                _unpack(package, packages)
        built = folder / "bin"
        _build_kubernetes(built)
        _build_helm(built)
        version = RUNTIMES[profile]
        if version.startswith("cri-o"):
            runtime = folder / version
            if not (runtime / "crio").exists():
                raise SeriesUnavailable(f"no crio, pinns and conmon in {runtime}")
        elif version.count(".") == 2:
            runtime = folder / f"containerd-{version}"
            _build_containerd(version, runtime)
        else:
            runtime = containerd_binaries(version).bin
    return Programs(runtime, built, packages)


def newest_containerd() -> Binaries:
    """Return the containerd that is built from the Go module proxy.

    :raises TestbedError: a download or a build failed.
    """
    version = RUNTIMES["containerd-2.4"]
    folder = cache_folder() / f"containerd-{version}"
    with locked("kubernetes"):
        _build_containerd(version, folder)
    return Binaries("2.4", folder)


def cache_folder() -> Path:
    """Return the folder of the programs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "nri-scope" / "kubernetes"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _unpack(package: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        run_command(work, "apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package)
        (archive,) = Path(work).glob("*.deb")
        run_command(work, "dpkg", "-x", str(archive), str(folder))


def _build_kubernetes(folder: Path) -> None:
    packages = {name: f"k8s.io/kubernetes/cmd/{name}" for name in KUBERNETES_PROGRAMS}
    packages["etcd"] = "go.etcd.io/etcd/server/v3"
    missing = {name: package for name, package in packages.items() if not (folder / name).exists()}
    if not missing:
        return
    module = download_module("k8s.io/kubernetes", KUBERNETES)
    staging = _STAGING.findall((module / "go.mod").read_text())
    replaced = [f"replace {name} => {name} v0.{KUBERNETES[2:]}" for name in staging]
    flags = " ".join(
        f"-X {package}.gitVersion=v{KUBERNETES} -X {package}.gitMajor=1 -X {package}.gitMinor=34"
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    )
    require = [f"require k8s.io/kubernetes v{KUBERNETES}", *replaced]
    _build(missing, require, flags, folder, (module / "go.sum").read_bytes())


def _build_helm(folder: Path) -> None:
    if not (folder / "helm").exists():
        packages = {"helm": "helm.sh/helm/v3/cmd/helm"}
        _build(packages, [f"require helm.sh/helm/v3 v{HELM}"], "", folder)


def _build_containerd(version: str, folder: Path) -> None:
    module = "github.com/containerd/containerd/v2"
    names = ("containerd", "containerd-shim-runc-v2", "ctr")
    missing = {name: f"{module}/cmd/{name}" for name in names if not (folder / name).exists()}
    if missing:
        flags = f"-X {module}/version.Version={version}"
        _build(missing, [f"require {module} v{version}"], flags, folder)


def _build(
    packages: dict[str, str], require: list[str], flags: str, folder: Path, sums: bytes = b""
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="build-") as work:
        lines = ["module programs", "go 1.24.0", *require]
        Path(work, "go.mod").write_text("\n".join(lines) + "\n")
        Path(work, "go.sum").write_bytes(sums)
        imports = "\n".join(f'import _ "{package}"' for package in packages.values())
        Path(work, "tools.go").write_text(f"//go:build tools\n\npackage tools\n\n{imports}\n")
        run_command(work, "go", "mod", "tidy")
        for name, package in packages.items():
            sys.stderr.write(f"building {name}\n")
            build_program(Path(work), package, folder / name, "-ldflags", f"-s -w {flags}")


def download_module(module: str, version: str) -> Path:
    """Return the folder of a module of the Go module proxy, which is not writable."""
    with tempfile.TemporaryDirectory() as work:
        Path(work, "go.mod").write_text("module download\n")
        template = f"{module}@v{version}"
        run_command(work, "go", "mod", "download", template)
        root = subprocess.run(
            ["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True
        ).stdout.strip()
    # A capital letter is "!" and its small letter in names of folders.
    return Path(root) / re.sub("[A-Z]", lambda letter: f"!{letter[0].lower()}", template)


def build_program(
    source: Path, package: str, program: Path, *options: str, cgo: bool = False
) -> None:
    """Build a main package of a writable folder with a module.

    :raises TestbedError: the build failed.
    """
    unfinished = program.with_name(f".{program.name}")
    flags = options or ("-ldflags", "-s -w")
    command = ("go", "build", "-trimpath", *flags, "-o", str(unfinished), package)
    run_command(source, *command, cgo=cgo)
    unfinished.rename(program)


def run_command(folder: str | Path, *command: str, cgo: bool = False) -> None:
    """Run a command of a build.

    :raises TestbedError: it failed; the message has the end of its output.
    """
    if shutil.which(command[0]) is None:
        raise TestbedError(f"it cannot be built without {command[0]}")
    environment = os.environ | {"CGO_ENABLED": str(int(cgo)), "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-15:])
        raise TestbedError(f"{' '.join(command[:4])}: status {done.returncode}\n{last}")


if __name__ == "__main__":
    newest_containerd()
    for name in () if sys.argv[1:] == ["containerd"] else RUNTIMES:
        with suppress(SeriesUnavailable):
            programs(name)
