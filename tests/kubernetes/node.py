# SPDX-License-Identifier: Apache-2.0
"""A node of the test cluster: the first process in namespaces of its own.

Started by `cluster` as ``unshare … python -m tests.kubernetes.node FOLDER PROFILE NUMBER IMAGES…``.
Its mounts and its network end with it; all programs keep their default paths, which are bound to
``FOLDER``, or for another node than the first to a folder in it. The first node has the control
plane and a bridge, to which `cluster` connects the other nodes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.runtime.testbed.images import write_images

from . import registry
from .certificates import SERVER, node_address
from .programs import Programs, programs

ROOT = Path(__file__).parent.parent.parent
NAME = "node1"
ADDRESS = node_address(1)
NODES_MAX = 3
SERVICE = "10.96.0.1"

CONTROLLERS = (
    *("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd"),
    "hugetlb",
)
# What the kubelet sets for the whole machine; files stand for these settings in the node.
_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_HUGE_PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
_TIMEOUT = 120.0


class Node:
    """Steps to set a node up, in order."""

    def __init__(self, cluster: Path, profile: str, found: Programs, number: int = 1) -> None:
        self.folder = node_folder(cluster, number)
        self.folder.mkdir(exist_ok=True)
        self.number = number
        self.name = f"node{number}"
        self.address = node_address(number)
        self.cgroup = cgroup_name(cluster, number)
        self.profile = profile
        self.programs = found
        self.certificates = cluster / "certificates"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        os.environ["PATH"] = found.path
        os.environ["KUBECONFIG"] = str(self.certificates / "admin.conf")

    def isolate(self) -> None:
        """Replace folders and settings of the machine by those of the node."""
        socket.sethostname(self.name)
        # Mounts of others below /tmp would stay busy as long as the node exists.
        mounted = Path("/proc/self/mountinfo").read_text().splitlines()
        for point in reversed([line.split()[4] for line in mounted]):
            if point.startswith("/tmp/"):
                run("umount", "--lazy", point)
        run("mount", "--make-rshared", "/")
        for name, target in (("run", "/run"), ("log", "/var/log"), ("lib", "/var/lib")):
            (self.folder / name).mkdir()
            run("mount", "--bind", str(self.folder / name), target)
        Path("/run/nri").mkdir()
        Path("/run/netns").mkdir()
        layers = [self.folder / "etc", self.folder / "etc-work"]
        for layer in layers:
            layer.mkdir()
        options = "lowerdir=/etc,upperdir={},workdir={}".format(*layers)
        run("mount", "-t", "overlay", "overlay", "-o", options, "/etc")
        hosts = [f"{node_address(each)} node{each}\n" for each in range(1, NODES_MAX + 1)]
        Path("/etc/hosts").write_text("".join(["127.0.0.1 localhost\n", *hosts]))
        # A link on some machines.
        Path("/etc/resolv.conf").unlink(missing_ok=True)
        Path("/etc/resolv.conf").touch()
        for name, value in _SYSCTLS.items():
            self._replace(Path("/proc/sys", name), f"{value}\n")
        if _HUGE_PAGES.exists():
            self._replace(_HUGE_PAGES, "4\n")

    def make_cgroups(self) -> None:
        """Make the cgroup of the node in each hierarchy; add that of huge pages where it lacks."""
        cgroups = Path("/sys/fs/cgroup")
        if (cgroups / "cgroup.controllers").exists():
            (cgroups / self.cgroup).mkdir()
            return
        private = self.folder / "cgroup"
        private.mkdir()
        run("mount", "-t", "tmpfs", "cgroups", str(private))
        for name in CONTROLLERS:
            (private / name).mkdir()
            if (cgroups / name).is_dir():
                run("mount", "--bind", str(cgroups / name), str(private / name))
            else:
                run("mount", "-t", "cgroup", "-o", name, "cgroup", str(private / name))
        run("mount", "--rbind", str(private), str(cgroups))
        for name in CONTROLLERS:
            (cgroups / name / self.cgroup).mkdir()
        for setting in ("cpus", "mems"):
            inherited = (cgroups / "cpuset" / f"cpuset.{setting}").read_text()
            (cgroups / "cpuset" / self.cgroup / f"cpuset.{setting}").write_text(inherited)

    def make_network(self) -> None:
        """Make a bridge with the first node's address; the service's address is local there."""
        run("ip", "link", "set", "lo", "up")
        if self.number == 1:
            commands = [
                "ip link add node0 type bridge",
                f"ip addr add {ADDRESS}/24 dev node0",
                "ip link set node0 up",
                f"ip addr add {SERVICE}/32 dev lo",
            ]
        else:
            self.wait_for("a link to the first node", Path("/sys/class/net/eth0").exists)
            commands = [
                f"ip addr add {self.address}/24 dev eth0",
                "ip link set eth0 up",
                f"ip route add {SERVICE} via {ADDRESS}",
            ]
        commands.append(f"ip route add default via {ADDRESS}")
        commands += [
            f"ip route add {_pod_network(each)} via {node_address(each)}"
            for each in range(1, NODES_MAX + 1)
            if each != self.number
        ]
        for command in commands:
            run(*command.split())
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
        (self.folder / "cni").mkdir()
        (self.folder / "cni" / "10-test.conflist").write_text(_CNI % _pod_network(self.number))

    def start_runtime(self, images: Sequence[str] = ()) -> None:
        """Start the runtime and provide the images, with those of further archives."""
        archive = self.folder / "images.tar"
        write_images(archive)
        archives = [str(archive), *images]
        if self.profile == "cri-o":
            self._start_cri_o(archives)
        else:
            self._start_containerd(archives)

    def _start_cri_o(self, archives: Sequence[str]) -> None:
        self.start(sys.executable, "-m", registry.__name__, "80", *archives, cwd=ROOT)
        containers = Path("/etc/containers")
        containers.mkdir(exist_ok=True)
        (containers / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        (containers / "registries.conf").write_text(
            '[[registry]]\nprefix = "localhost"\nlocation = "localhost:80"\ninsecure = true\n'
        )
        config = self.folder / "crio.conf"
        config.write_text(
            _CRI_O.format(
                folder=self.folder,
                runc=self._clamped_runc(),
                programs=self.programs.runtime,
                network=self.programs.network_plugins,
            )
        )
        self.start("crio", "--config", str(config), "--config-dir", "")
        self.wait_for("CRI-O", Path("/run/crio/crio.sock").exists)

    def _start_containerd(self, archives: Sequence[str]) -> None:
        config = self.folder / "containerd.toml"
        config.write_text(self._containerd_toml())
        self.start("containerd", "--config", str(config))
        self.wait_for("containerd", Path("/run/containerd/containerd.sock").exists)
        for archive in archives:
            command = ("ctr", "-n", "k8s.io", "images", "import", archive)
            self.wait_for("the import of images", partial(succeeds, *command))

    def start_control_plane(self) -> None:
        """Start etcd, the API server, the controllers and the scheduler."""
        at = self.certificates
        self.start(
            *("etcd", "--data-dir", "/var/lib/etcd", "--unsafe-no-fsync", "--log-level", "warn")
        )
        self.start(
            "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=443",
            f"--advertise-address={ADDRESS}",
            "--service-cluster-ip-range=10.96.0.0/24",
            f"--client-ca-file={at}/ca.crt",
            f"--requestheader-client-ca-file={at}/ca.crt",
            f"--tls-cert-file={at}/apiserver.crt",
            f"--tls-private-key-file={at}/apiserver.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={at}/sa.key",
            f"--service-account-signing-key-file={at}/sa.key",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-certificate-authority={at}/ca.crt",
            f"--kubelet-client-certificate={at}/admin.crt",
            f"--kubelet-client-key={at}/admin.key",
        )
        self.wait_for(
            f"the API server at {SERVER}", lambda: succeeds("kubectl", "get", "--raw=/readyz")
        )
        for name, *options in (
            (
                "controller-manager",
                "--use-service-account-credentials",
                f"--service-account-private-key-file={at}/sa.key",
                f"--root-ca-file={at}/ca.crt",
            ),
            ("scheduler",),
        ):
            files = [
                f"--{kind}kubeconfig={at}/{name}.conf"
                for kind in ("", "authentication-", "authorization-")
            ]
            self.start(f"kube-{name}", *files, "--leader-elect=false", *options)

    def start_kubelet(self) -> None:
        """Start the kubelet and wait for the node to be ready."""
        # Another node starts before the control plane is complete.
        self.wait_for(
            f"the API server at {SERVER}", lambda: succeeds("kubectl", "get", "--raw=/readyz")
        )
        config = self.folder / "kubelet.yaml"
        config.write_text(self._kubelet_yaml())
        self.start(
            "kubelet",
            f"--config={config}",
            f"--kubeconfig={self.certificates}/{self.name}.conf",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        )
        ready = ("wait", "--for=condition=Ready", f"node/{self.name}", "--timeout=1s")
        self.wait_for("the node to be ready", lambda: succeeds("kubectl", *ready))

    def start(self, *command: str, cwd: Path | None = None) -> None:
        """Start a process, with its output in a file of its name."""
        name = Path(command[0]).name
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=cwd or self.folder
            )

    def wait_for(self, what: str, is_done: Callable[[], bool]) -> None:
        """Wait until a condition is true; all started processes must continue meanwhile."""
        end = time.monotonic() + _TIMEOUT
        while not is_done():
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended while waiting for {what}")
            if time.monotonic() > end:
                raise TimeoutError(f"no {what} after {_TIMEOUT:g} s")
            time.sleep(0.1)

    def _replace(self, path: Path, content: str) -> None:
        file = self.folder / f"file{str(path).replace('/', '-')}"
        file.write_text(content)
        run("mount", "--bind", str(file), str(path))

    def _containerd_toml(self) -> str:
        runc = f'BinaryName = "{self._clamped_runc()}"'
        network = self.programs.network_plugins
        if self.profile == "containerd-1.7":
            return _CONTAINERD_1.format(runc=runc, network=network, folder=self.folder)
        return _CONTAINERD_2.format(runc=runc, network=network, folder=self.folder)

    def _clamped_runc(self) -> Path:
        """Return runc without what needs CAP_SYS_RESOURCE, which some machines lack.

        Plugins get the OOM scores and the capabilities that were asked for.
        """
        wrapper = self.folder / "runc"
        wrapper.write_text(
            "#!/bin/sh\n"
            'previous=""\n'
            'for word in "$@"; do\n'
            '  case "$previous" in -b|--bundle)\n'
            '    sed -i \'s/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/; s/"CAP_SYS_RESOURCE",//g\''
            ' "$word/config.json";;\n'
            "  esac\n"
            '  previous="$word"\n'
            "done\n"
            f'exec {self.programs.packages}/usr/sbin/runc "$@"\n'
        )
        wrapper.chmod(0o755)
        return wrapper

    def _cri_socket(self) -> str:
        return f"/run/{'crio/crio' if self.profile == 'cri-o' else 'containerd/containerd'}.sock"

    def _kubelet_yaml(self) -> str:
        at = self.certificates
        return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://{self._cri_socket()}
authentication:
  x509: {{clientCAFile: {at}/ca.crt}}
  webhook: {{enabled: true}}
  anonymous: {{enabled: false}}
authorization: {{mode: Webhook}}
tlsCertFile: {at}/{self.name}.crt
tlsPrivateKeyFile: {at}/{self.name}.key
cgroupDriver: cgroupfs
cgroupRoot: /{self.cgroup}
failSwapOn: false
failCgroupV1: false
oomScoreAdj: 0
resolvConf: ""
clusterDNS: [10.96.0.10]
evictionHard:
  memory.available: "0%"
  nodefs.available: "0%"
  imagefs.available: "0%"
  nodefs.inodesFree: "0%"
  imagefs.inodesFree: "0%"
imageGCHighThresholdPercent: 100
volumePluginDir: {self.folder}/volume-plugins
"""


def node_folder(cluster: Path, number: int) -> Path:
    """Return the folder of a node."""
    return cluster if number == 1 else cluster / f"node{number}"


def cgroup_name(cluster: Path, number: int) -> str:
    """Return the name of a node's cgroup in each hierarchy."""
    return cluster.name if number == 1 else f"{cluster.name}-{number}"


def _pod_network(number: int) -> str:
    return f"10.88.{number - 1}.0/24"


def run(*command: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True)


def succeeds(*command: str) -> bool:
    """Return whether a command succeeds."""
    return subprocess.run(command, capture_output=True).returncode == 0


_CNI = """\
{"cniVersion": "1.0.0", "name": "test", "plugins": [{"type": "bridge", "bridge": "cni0",
 "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "%s"}]],
 "routes": [{"dst": "0.0.0.0/0"}]}}]}
"""
_CONTAINERD_1 = """\
version = 2
[plugins."io.containerd.nri.v1.nri"]
  disable = false
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  {runc}
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{network}"
  conf_dir = "{folder}/cni"
"""
_CONTAINERD_2 = """\
version = 3
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  {runc}
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{network}"]
  conf_dir = "{folder}/cni"
[plugins."io.containerd.cri.v1.runtime"]
  disable_hugetlb_controller = false
"""
_CRI_O = """\
[crio]
log_dir = "/var/log/pods"
[crio.api]
listen = "/run/crio/crio.sock"
[crio.runtime]
cgroup_manager = "cgroupfs"
default_runtime = "runc"
apparmor_profile = "unconfined"
pinns_path = "{programs}/pinns"
hooks_dir = []
disable_hostport_mapping = true
irqbalance_config_restore_file = "disable"
[crio.runtime.runtimes.runc]
runtime_path = "{runc}"
monitor_path = "{programs}/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "localhost/pause:1"
pause_command = ""
[crio.network]
network_dir = "{folder}/cni"
plugin_dirs = ["{network}"]
"""


def main(folder: Path, profile: str, number: int = 1, images: Sequence[str] = ()) -> None:
    """Set the node up, tell that it is ready, and reap processes until killed."""
    # The cache folder may be hidden by the node's folders afterwards.
    node = Node(folder, profile, programs(profile), number)
    node.isolate()
    node.make_cgroups()
    node.make_network()
    node.start_runtime(images)
    if number == 1:
        node.start_control_plane()
    node.start_kubelet()
    (node.folder / "ready").touch()
    while True:
        os.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:])
