# SPDX-License-Identifier: Apache-2.0
"""Other people's plugins: how each is built and started, what it needs, and what it should do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from nri_scope.specs import Json

from .programs import Given, Module, Program

NRI = Program(Given("containerd/nri", "0.12.2"))
NRI_PLUGINS = Program(Given("containers/nri-plugins", "0.14.0"))
DRANET = Program(Given("kubernetes-sigs/dranet", "1.4.0"))
RTHOOKS = Program(Given("cilium/tetragon", "0.9"))
NYDUS = Module("github.com/containerd/nydus-snapshotter", "0.16.1")
NVIDIA = Module("github.com/NVIDIA/nvidia-container-toolkit", "1.20.2")

NODE_CGROUPS = "27 22 0:24 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate"
HOOK: Json = {"path": "/bin/true", "args": ["true", "injected"]}
CDI = {
    "cdiVersion": "0.6.0",
    "kind": "example.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["GPU=0"]}}],
}
OLD_PLUGIN = """\
#!/bin/sh
echo '{"plugin": "old", "version": "0.1"}'
echo >>{folder}/calls
"""
BALLOONS = """\
apiVersion: config.nri/v1alpha1
kind: BalloonsPolicy
metadata: {name: default}
spec:
  reservedResources: {cpu: 750m}
  pinCPU: true
  balloonTypes:
  - {name: all, namespaces: ["*"], minCPUs: 1, maxCPUs: 1, maxBalloons: 1}
"""
TOPOLOGY = """\
apiVersion: config.nri/v1alpha1
kind: TopologyAwarePolicy
metadata: {name: default}
spec:
  reservedResources: {cpu: 750m}
  pinCPU: true
  pinMemory: true
"""


@dataclass(frozen=True)
class Plugin:
    """One plugin, and a pod that it acts on."""

    program: Program
    does: str
    """What it does, as its own documentation says."""
    arguments: tuple[str, ...] = ()
    """``{folder}`` is the folder of a test."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that it reads; those in /etc are seen by the test only, others are in ``{folder}``."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pod shop/web."""
    effects: Mapping[str, Json] = field(default_factory=dict)
    """Value by label of what it should change in the container "app"."""
    registers: str = ""
    """``NN-name``; empty: 10 and the name of its program."""
    refuses: str = ""
    """Reason with which it refuses the pod or the container."""
    varies: str = ""
    """Pattern of values that differ in each run; the golden gets it as a matcher."""
    leaves: str = ""
    """File in ``{folder}`` that it makes at work."""
    serves: str = ""
    """Socket in ``{folder}`` with a server that answers each request of HTTP with "OK"."""
    kubernetes: bool = False
    """Whether it needs a Kubernetes API and a kubelet: those of `kubernetes`."""
    external: bool = False
    """Whether it finds only the default socket: it is started with ``--external``."""
    undone: str = ""
    """What a node of the test lacks, so that only the replay is run."""
    needs: str = ""
    """What it needs besides its program."""


PLUGINS: Mapping[str, Plugin] = {
    "device-injector": Plugin(
        NRI,
        "adds devices and mounts",
        annotations={
            "devices.noderesource.dev/container.app": (
                "- {path: /dev/injected, type: c, major: 1, minor: 3}"
            ),
            "mounts.noderesource.dev/container.app": (
                "- {source: /tmp, destination: /mnt/injected, type: bind, options: [rbind, ro]}"
            ),
        },
        effects={
            "devices[/dev/injected]": {
                "path": "/dev/injected",
                "type": "c",
                "major": 1,
                "minor": 3,
            },
            "mounts[/mnt/injected]": {
                "destination": "/mnt/injected",
                "type": "bind",
                "source": "/tmp",
                "options": ["rbind", "ro"],
            },
        },
    ),
    "hook-injector": Plugin(
        NRI,
        "adds OCI hooks",
        files={
            "/etc/containers/oci/hooks.d/test.json": json.dumps(
                {"version": "1.0.0", "hook": HOOK, "when": {"always": True}, "stages": ["prestart"]}
            )
        },
        effects={"hooks.createRuntime[/bin/true]": HOOK},
        needs="its hooks in /etc/containers/oci/hooks.d",
    ),
    "network-device-injector": Plugin(
        NRI,
        "moves network devices to a pod's network namespace by itself",
        annotations={"netdevice.noderesource.dev": "- {name: dummy0, new_name: net1}"},
        refuses="trying to inject network device on host network Pod",
        needs="pods with a network of their own; the test's pods use that of the node",
    ),
    "ulimit-adjuster": Plugin(
        Program(Module("github.com/containerd/nri", "0.4.0"), "plugins/ulimit-adjuster"),
        "sets rlimits",
        annotations={
            "ulimits.nri.containerd.io/container.app": "- {type: nofile, soft: 512, hard: 1024}"
        },
        effects={"rlimits[RLIMIT_NOFILE]": {"type": "RLIMIT_NOFILE", "soft": 512, "hard": 1024}},
    ),
    "rdt": Plugin(
        NRI,
        "sets classes of Intel RDT",
        annotations={"closid.rdt.noderesource.dev/container.app": "gold"},
        effects={"linux.intelRdt.closID": "gold"},
        undone="a processor with Intel RDT",
    ),
    "writable-cgroups": Plugin(
        NRI,
        "mounts cgroups writable",
        arguments=("-host-mount-file", "{folder}/mountinfo"),
        files={"mountinfo": NODE_CGROUPS},
        annotations={"writable-cgroups.noderesource.dev": "true"},
        effects={"mounts[/sys/fs/cgroup].options": ["nosuid", "noexec", "nodev", "relatime", "rw"]},
        needs="cgroup v2 mounted with nsdelegate; the test's list of mounts says so",
    ),
    "network-logger": Plugin(NRI, "prints networks of pods"),
    "differ": Plugin(
        NRI,
        "shows changes of other plugins",
        arguments=("-indices", "00,99", "-yaml"),
        registers="00-differ",
    ),
    "logger": Plugin(
        NRI,
        "prints each request, and sets a variable",
        arguments=("-set-env", "LOGGED"),
        varies="logger-pid-[0-9]+",
    ),
    "v010-adapter": Plugin(
        NRI,
        "calls plugins of NRI 0.1",
        files={
            "/etc/nri/conf.json": '{"version": "0.1", "plugins": [{"type": "{folder}/old"}]}',
            "old": OLD_PLUGIN,
        },
        leaves="calls",
        needs="/etc/nri/conf.json, and plugins of NRI 0.1",
    ),
    "nvidia-ctk-installer": Plugin(
        Program(NVIDIA, "cmd/nvidia-ctk-installer", cgo=True),
        "adds CDI devices",
        arguments=(
            "--enable-nri-plugin",
            "--nri-namespace=gpu-operator",
            "--nri-socket={socket}",
            "--no-runtime-config",
            "--ignore-errors",
            "--runtime=containerd",
            "--toolkit-install-dir={folder}/toolkit",
            "--toolkit-source-root={folder}/artifacts",
            "--pid-file={folder}/toolkit.pid",
        ),
        files={"/etc/cdi/gpu.json": json.dumps(CDI), "artifacts/none": ""},
        annotations={"nvidia.cdi.k8s.io/container.app": "example.com/gpu=0"},
        effects={"cdiDevices[example.com/gpu=0]": {"name": "example.com/gpu=0"}},
        needs="no GPU for its NRI part; the test has a CDI device of its own",
    ),
    "optimizer-nri-plugin": Plugin(
        Program(NYDUS, "cmd/optimizer-nri-plugin"),
        "runs a server that lists the files which a container opens",
        arguments=("--server-path={folder}/server", "--persist-dir={folder}/results"),
        files={"server": "#!/bin/sh\nexec sleep 1000\n"},
        leaves="results",
        needs="optimizer-server; the test has a process in its place",
    ),
    "prefetchfiles-nri-plugin": Plugin(
        Program(NYDUS, "cmd/prefetchfiles-nri-plugin"),
        "sends a pod's list of files to nydus-snapshotter",
        files={
            "/etc/nydus/prefetchConfig.toml": (
                '[file_prefetch]\nsocket_address = "{folder}/system.sock"\n'
            )
        },
        annotations={"containerd.io/nydus-prefetch": "/usr/bin"},
        serves="system.sock",
        needs="nydus-snapshotter; without /etc/nydus/prefetchConfig.toml it panics",
    ),
    "tetragon": Plugin(
        RTHOOKS,
        "adds OCI hooks",
        arguments=("--oci-hook-path=/bin/true",),
        effects={
            f"hooks.{stage}[/bin/true]": {"path": "/bin/true", "args": ["true", stage]}
            for stage in ("createRuntime", "createContainer")
        },
        registers="01-tetragon",
        needs="no agent for its NRI part",
    ),
    "balloons": Plugin(
        NRI_PLUGINS,
        "pins containers to CPUs",
        arguments=("-nri-socket={socket}", "-config-file={folder}/config", "-state-dir={folder}"),
        files={"config": BALLOONS},
        effects={"cpu.mems": "0"},
        registers="90-resource-manager",
    ),
    "topology-aware": Plugin(
        NRI_PLUGINS,
        "pins containers to CPUs and memory",
        arguments=("-nri-socket={socket}", "-config-file={folder}/config", "-state-dir={folder}"),
        files={"config": TOPOLOGY},
        effects={"cpu.mems": "0"},
        registers="90-resource-manager",
    ),
    "memory-qos": Plugin(
        NRI_PLUGINS,
        "sets cgroup v2 values of memory",
        arguments=("-config={folder}/config",),
        files={"config": "unifiedannotations: [memory.high]\n"},
        annotations={"memory.high.memory-qos.nri.io/app": "100000000"},
        effects={"unified[memory.high]": "100000000"},
        undone="cgroup v2",
    ),
    "memory-policy": Plugin(
        NRI_PLUGINS,
        "sets NUMA memory policies",
        arguments=("-config={folder}/config",),
        files={"config": "classes: [{name: near, policy: {mode: MPOL_PREFERRED, nodes: '0'}}]\n"},
        annotations={"class.memory-policy.nri.io/container.app": "near"},
        refuses="memory policy adjustment is not implemented yet",
    ),
    "memtierd": Plugin(
        NRI_PLUGINS,
        "starts memtierd, which moves memory, for pods that ask for it",
        needs="memtierd",
    ),
    "resctrl-mon": Plugin(NRI_PLUGINS, "counts with resctrl", needs="resctrl"),
    "dranet": Plugin(
        DRANET,
        "gives network devices to pods that claim them",
        arguments=(
            "--kubeconfig={folder}/kubeconfig",
            "--kubelet-root-dir={folder}/kubelet",
            "--hostname-override=node",
            "--cloud-provider-hint=NONE",
            "--bind-address=127.0.0.1:0",
            "--db-path=",
        ),
        registers="00-dra.net",
        kubernetes=True,
        external=True,
        needs="a Kubernetes API and a kubelet; the test has stand-ins without claims, "
        "`python -m tests.plugins.kubernetes .`",
    ),
    "sgx-epc": Plugin(
        NRI_PLUGINS,
        "limits memory of SGX",
        annotations={"epc-limit.nri.io/container.app": "65536"},
        effects={"unified[misc.max]": "sgx_epc 65536"},
        undone="cgroup v2 and SGX",
    ),
}

NOT_RUN: Mapping[str, tuple[str, str]] = {
    "wasm": ("containerd/nri 0.12.2", "it runs inside the runtime"),
    "dra-driver-cpu": ("kubernetes-sigs/dra-driver-cpu", "not served by the Go module proxy"),
    "KubeArmor": (
        "kubearmor/KubeArmor 1.7.4",
        "not served by the Go module proxy; built by hand, it ends with SIGSEGV before it "
        "connects on a node without its compiled eBPF programs",
    ),
    "koordlet": (
        "koordinator-sh/koordinator 1.8.0",
        "not served by the Go module proxy; built by hand with headers of libpfm4, it ends "
        "with `cannot statfs cgroup root` before it connects on a node without its folders",
    ),
}
"""Plugins that are not run, with where they are, and the reason."""

PROGRAMS: dict[str, Program] = {name: plugin.program for name, plugin in PLUGINS.items()}
