# SPDX-License-Identifier: Apache-2.0
"""Ways to install the recorder on this machine, with their commands; nothing is changed.

A DaemonSet for a node of a Kubernetes cluster, a systemd unit, or a plugin that the runtime
launches: only that one needs a restart of the runtime, and only that one works if external plugins
may not connect.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import sysconfig
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nri_scope.nri.versions import runtime_title, runtime_words
from nri_scope.text.escape import safe

from .check import SCHEMA_VERSION, Check, Health
from .config_checks import NO_RUNTIME, Installation, distribution_of
from .host import Host, NamedProcess, first_process
from .plugins import look_at_plugins, starts
from .settings import plugin_folders

UNIT = "nri-scope.service"
_UNIT_FOLDERS = ("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
"""Where systemd looks for the program of the unit, which names no folder."""
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""Folders that the unit's sandbox hides: ProtectHome= and PrivateTmp= of systemd.exec(5)."""
_KUBELETS = ("kubelet", "k3s-server", "k3s-agent", "kubelite")
"""Process names of the kubelet: on its own, in k3s and in MicroK8s."""
_SERVICES = {"containerd": "containerd", "cri-o": "crio", "docker": "docker", "isulad": "isulad"}
_PLUGIN = "00-nri-scope"
_OF_SOCKET = ("socket", "listener", "registration")
"""Names of checks of which each must pass for external plugins."""


@dataclass(frozen=True, slots=True)
class Program:
    """The installed command."""

    path: str
    unit: str = ""
    """Path of the unit's file; "" if it is not installed."""
    files: tuple[str, ...] = ()
    """What root would run: the resolved command, its interpreter and this package."""

    @classmethod
    def running(cls) -> Program:
        """Return the command that runs now."""
        command = Path(sysconfig.get_path("scripts"), "nri-scope")
        if not command.exists():
            command = Path(sys.argv[0]).absolute()
        package = Path(__file__).parents[1]
        units = (
            Path(sys.prefix, "lib/systemd/system", UNIT),
            package.parent / "deploy/systemd" / UNIT,
        )
        unit = next((str(path) for path in units if path.exists()), "")
        files = (command, Path(sys.executable), package)
        return cls(str(command), unit, tuple(os.path.realpath(path) for path in files))


@dataclass(frozen=True, slots=True)
class Way:
    """A way to install the recorder."""

    name: str
    """``daemonset``, ``unit`` or ``plugin``."""
    title: str
    reason: str
    problem: str
    """Why it does not work here, or not yet; "" if it does."""
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do on this machine."""

    facts: tuple[str, ...]
    first: tuple[Check, ...]
    """Failed checks to correct before the recorder can work."""
    recommended: str
    """A name of `ways`; "" if the recorder is installed already, or if no way works."""
    why: str
    """Why no way is recommended; "" if one is."""
    ways: tuple[Way, ...]
    is_installed: bool = False

    @property
    def exit_status(self) -> int:
        """0 if a way works now or the recorder is installed, else 1."""
        return int(bool(self.first) or not (self.recommended or self.is_installed))


def plan(
    host: Host, installations: Sequence[Installation], checks: Sequence[Check], program: Program
) -> Plan:
    """Return what to do, from what `examine` found and the files of the machine."""
    item = next(iter(installations), NO_RUNTIME)
    runtime = item.config.runtime
    failed = [check for check in checks if check.status is Health.FAIL]
    broken = [check for check in failed if check.name in ("plugins", "plugin", "plugin-config")]
    first = [check for check in failed if check.name in (f"{runtime}-enabled", f"{runtime}-config")]
    closed = [check for check in failed if check.name.endswith("-connections")]
    # Without NRI there is no socket.
    unserved = [check for check in failed if not first and check.name in _OF_SOCKET]
    disconnected = "external plugins may not connect" if closed else ""
    disconnected = next((check.detail for check in unserved if not closed), disconnected)
    launching = next((check.detail for check in broken), "" if runtime else "no runtime was found")
    if item.root:
        disconnected = launching = f"{item.title} has a mount namespace of its own, {item.root}"
    places = dict(_installed(host, item, is_broken=bool(broken)))
    facts = (_runtime_fact(item, closed), *places, *_recorder_fact(host), *_machine_facts(host))
    ways = (
        _daemonset(host, disconnected),
        _unit(host, program, disconnected),
        _launched_plugin(host, item, program, launching),
    )
    is_installed = any(places.values())
    chosen = next((way.name for way in ways if not way.problem), "")
    why = "" if chosen else "no way works yet"
    if not runtime:
        chosen, why = "", "there is no container runtime"
    if is_installed:
        chosen, why = "", "the recorder is installed"
    return Plan(facts, tuple(first), chosen, why, ways, is_installed)


def _has_systemd(host: Host) -> bool:
    return host.exists("/run/systemd/system")


def _kubelet(host: Host) -> NamedProcess | None:
    # Nodes of kind have another root folder.
    return first_process(host, _KUBELETS, same_root=True)


def _machine_facts(host: Host) -> tuple[str, str]:
    does = "runs" if _has_systemd(host) else "does not run"
    kubelet = _kubelet(host)
    node = "no kubelet runs: not a node of a Kubernetes cluster"
    if kubelet:
        node = f"{kubelet.name} runs (process {kubelet.pid}): a node of a Kubernetes cluster"
    return f"systemd {does} this machine", node


def _daemonset(host: Host, disconnected: str) -> Way:
    """Return the way by a DaemonSet. ``disconnected``: why external plugins cannot connect."""
    return Way(
        "daemonset",
        "DaemonSet",
        "Kubernetes runs the recorder on every node, also on new ones, and upgrades it",
        disconnected or ("" if _kubelet(host) else "no kubelet runs here"),
        (
            "# in nri-scope's sources; docs/kubernetes.md: how the image gets onto every node",
            "make image",
            "kubectl apply -k deploy/kustomize/base",
        ),
    )


def _unit(host: Host, program: Program, disconnected: str) -> Way:
    """Return the way by a systemd unit. ``disconnected``: see `_daemonset`."""
    without_systemd = "" if _has_systemd(host) else "systemd does not run here"
    return Way(
        "unit",
        "systemd unit",
        "systemd starts the recorder again whenever it ends, in a sandbox, and the runtime is "
        "never restarted",
        disconnected or without_systemd or _program_problem(host, program, is_hidden=True),
        tuple(_unit_commands(program)),
    )


def _launched_plugin(host: Host, item: Installation, program: Program, problem: str) -> Way:
    """Return the way by a plugin that the runtime launches. ``problem``: why it launches none."""
    return Way(
        "plugin",
        "plugin that the runtime launches",
        "it sees every event from the runtime's start on, even if external plugins may not "
        "connect; installing and upgrading it needs a restart of the runtime",
        problem or _program_problem(host, program, is_hidden=False),
        tuple(_plugin_commands(host, item, program, _has_systemd(host))),
    )


def _runtime_fact(item: Installation, closed: Sequence[Check]) -> str:
    if item is NO_RUNTIME:
        return "no container runtime was found"
    if closed:
        return f"{item.title}: {closed[0].detail}"
    registration = item.registration
    if registration is not None and registration.configured:
        runtime = registration.runtime
        title = runtime_words(runtime.runtime_name, runtime.runtime_version) or item.title
        version = f" with NRI {runtime.version}" if runtime.version else ""
        return f"{title}{version} accepts external plugins"
    return f"{item.title} was found, but doctor could not connect to it"


def _installed(host: Host, item: Installation, *, is_broken: bool) -> Iterator[tuple[str, bool]]:
    """Yield a fact for each place where the recorder is installed, and whether it is started there.

    ``is_broken``: whether a check of the runtime's plugins failed, so that it launches none.
    """
    below = host.below(item.root)
    folder = look_at_plugins(below, *plugin_folders(item.config))
    for entry in folder.plugins:
        path = f"{folder.path}/{entry.name}"
        try:
            target = below.resolve(path).name
        except OSError:
            continue
        if "nri-scope" not in (entry.name.partition("-")[2], target):
            continue
        if is_broken or not starts(folder, entry, item.config.runtime == "isulad"):
            yield f"{path} exists, but the runtime does not launch it: see nri-scope doctor", False
        else:
            yield f"already installed: the runtime launches {path} when it starts", True
    if host.exists(f"/etc/systemd/system/multi-user.target.wants/{UNIT}"):
        yield f"already installed: systemd starts {UNIT}", True


def _recorder_fact(host: Host) -> Iterator[str]:
    recorder = first_process(host, ("nri-scope",), argument="record")
    if recorder is not None:
        runs = f"nri-scope record runs (process {recorder.pid})"
        yield f"{runs}: a second recorder would record every event twice"


def _program_problem(host: Host, program: Program, *, is_hidden: bool) -> str:
    """Return why root should not, or cannot, run the program; "" if nothing is wrong.

    ``is_hidden``: whether the folders `_HIDDEN` are hidden from the program.
    """
    for path in program.files:
        hidden = next((folder for folder in _HIDDEN if path.startswith(f"{folder}/")), "")
        if hidden and is_hidden:
            return f"the unit cannot see {path} (in {hidden}): install nri-scope in /opt/nri-scope"
        try:
            status = host.status(path)
        except OSError:
            continue
        if status.st_uid or status.st_mode & 0o022:
            return (
                f"users other than root can change {path}, which root would run: install nri-scope "
                "as root"
            )
    return ""


def _unit_commands(program: Program) -> Iterator[str]:
    folder, _, name = program.path.rpartition("/")
    if folder not in _PROGRAM_FOLDERS:
        yield f"sudo ln -s {shlex.quote(program.path)} /usr/local/bin/{shlex.quote(name)}"
    if program.unit.rpartition("/")[0] not in _UNIT_FOLDERS:
        unit = shlex.quote(program.unit or f"deploy/systemd/{UNIT}")
        yield f"sudo install -m 0644 {unit} /etc/systemd/system/"
    yield "sudo systemctl daemon-reload"
    yield f"sudo systemctl enable --now {UNIT.removesuffix('.service')}"


def _plugin_commands(
    host: Host, item: Installation, program: Program, has_systemd: bool
) -> Iterator[str]:
    folder, configs = plugin_folders(item.config)
    if not host.exists(folder):
        yield f"sudo mkdir -p {shlex.quote(folder)}"
    if not host.exists(f"{folder}/{_PLUGIN}"):
        yield f"sudo ln -s {shlex.quote(program.path)} {shlex.quote(f'{folder}/{_PLUGIN}')}"
    runtime, distribution = item.config.runtime, distribution_of(item.config)
    if runtime == "isulad":
        # iSulad launches only plugins with a configuration file.
        yield f"sudo mkdir -p {shlex.quote(configs)}"
        yield f"sudo touch {shlex.quote(f'{configs}/{_PLUGIN}.conf')}"
    # A unit of the distribution runs containerd.
    if has_systemd and runtime and not distribution:
        # A restart of Docker Engine stops its containers.
        verb = "reload" if runtime == "docker" else "restart"
        yield f"sudo systemctl {verb} {_SERVICES[runtime]}"
    else:
        yield f"# restart {distribution or runtime_title(runtime) or 'the runtime'}"


def as_json(plan: Plan) -> str:
    """Return the plan as a JSON object."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **asdict(plan)}, indent=2)


def as_text(plan: Plan, width: int) -> Iterator[str]:
    """Yield the lines of a plan, of up to ``width`` columns but for what is to be copied."""
    for fact in plan.facts:
        yield from _wrap(fact, width)
    for check in plan.first:
        yield ""
        yield from _wrap(f"first: {check.detail}", width)
        if check.fix:
            yield from _wrap(f"fix: {check.fix}", width, "  ")
        yield from (f"    {safe(line)}" for line in check.config.splitlines())
    if not plan.recommended:
        yield ""
        yield from _wrap(f"no way is recommended: {plan.why}", width)
    for way in sorted(plan.ways, key=lambda way: way.name != plan.recommended):
        yield ""
        yield f"{'recommended' if way.name == plan.recommended else 'other way'}: {way.title}"
        yield from _wrap(way.reason, width, "  ")
        if way.problem:
            yield from _wrap(f"not here: {way.problem}", width, "  ")
        else:
            yield from (f"    {safe(command)}" for command in way.commands)


def _wrap(text: str, width: int, indent: str = "") -> list[str]:
    # Names of files and processes are untrusted.
    return textwrap.wrap(
        safe(text),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
