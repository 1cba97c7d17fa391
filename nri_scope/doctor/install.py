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

from nri_scope.nri.events import DEFAULT_PLUGIN_CONFIG_PATH, DEFAULT_PLUGIN_PATH
from nri_scope.nri.versions import runtime_title, runtime_words
from nri_scope.text.escape import safe

from .check import SCHEMA_VERSION, Check, Status
from .config_checks import Installation
from .host import Host, first_process
from .plugins import look_at_plugins
from .settings import path_of

UNIT = "nri-scope.service"
_UNIT_FOLDERS = ("/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin")
"""Where systemd looks for the program of the unit, which names no folder."""
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""Folders that the unit's sandbox hides: ProtectHome= and PrivateTmp= of systemd.exec(5)."""
_KUBELETS = ("kubelet", "k3s-server", "k3s-agent", "kubelite")
"""Process names of the kubelet: on its own, in k3s and in MicroK8s."""
_SERVICES = {"containerd": "containerd", "cri-o": "crio", "isulad": "isulad"}
_PLUGIN = "00-nri-scope"


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
    item = installations[0] if installations else None
    runtime = "" if item is None else item.config.runtime
    can_connect = any(
        one.registration is not None and one.registration.configured for one in installations
    )
    first = [one for one in checks if one.status is Status.FAIL and one.name.endswith("-enabled")]
    closed = [
        one for one in checks if one.status is Status.FAIL and one.name.endswith("-connections")
    ]
    has_systemd = host.exists("/run/systemd/system")
    # Nodes of kind have another root folder.
    kubelet = first_process(host, _KUBELETS, same_root=True)
    installed = list(_installed(host, item))
    facts = [
        _runtime_fact(item, can_connect, closed),
        *(f"already installed: {one}" for one in installed),
        *_recorder_fact(host),
        "systemd runs this machine" if has_systemd else "systemd does not run this machine",
        f"{kubelet.name} runs (process {kubelet.pid}): a node of a Kubernetes cluster"
        if kubelet
        else "no kubelet runs: not a node of a Kubernetes cluster",
    ]
    disconnected = "external plugins may not connect" if closed else ""
    ways = (
        Way(
            "daemonset",
            "DaemonSet",
            "Kubernetes runs the recorder on every node, also on new ones, and upgrades it",
            disconnected or ("" if kubelet else "no kubelet runs here"),
            (
                "# in nri-scope's sources; docs/kubernetes.md: how the image gets onto every node",
                "make image",
                "kubectl apply -k deploy/kustomize/base",
            ),
        ),
        Way(
            "unit",
            "systemd unit",
            "systemd starts the recorder again whenever it ends, in a sandbox, and the runtime is "
            "never restarted",
            disconnected
            or ("" if has_systemd else "systemd does not run here")
            or _program_problem(host, program, is_hidden=True),
            tuple(_unit_commands(program)),
        ),
        Way(
            "plugin",
            "plugin that the runtime launches",
            "it sees every event from the runtime's start on, even if external plugins may not "
            "connect; installing and upgrading it needs a restart of the runtime",
            ("" if runtime else "no runtime was found")
            or _program_problem(host, program, is_hidden=False),
            tuple(_plugin_commands(host, item, program, has_systemd)),
        ),
    )
    wanted = ["daemonset"] if kubelet else []
    usable = [way.name for way in ways if not way.problem]
    chosen = next((name for name in [*wanted, "unit", "plugin"] if name in usable), "")
    why = "" if chosen else "no way works yet"
    if item is None:
        chosen, why = "", "there is no container runtime"
    if installed:
        chosen, why = "", "it is installed"
    return Plan(tuple(facts), tuple(first), chosen, why, ways, bool(installed))


def _runtime_fact(item: Installation | None, can_connect: bool, closed: Sequence[Check]) -> str:
    if item is None:
        return "no containerd, CRI-O or iSulad was found"
    if closed:
        return f"{item.title}: {closed[0].detail}"
    registration = item.registration
    if can_connect and registration is not None:
        title = runtime_words(registration.runtime_name, registration.runtime_version) or item.title
        version = f" with NRI {registration.nri_version}" if registration.nri_version else ""
        return f"{title}{version} accepts external plugins"
    return f"{item.title} was found, but doctor could not connect to it"


def _installed(host: Host, item: Installation | None) -> Iterator[str]:
    """Yield the places where the recorder is installed."""
    config = None if item is None else item.config
    path = path_of(config.plugin_path if config else None, DEFAULT_PLUGIN_PATH)
    for entry in look_at_plugins(host, path, "/nonexistent").plugins:
        try:
            target = host.resolve(f"{path}/{entry.name}").name
        except OSError:
            continue
        if "nri-scope" in (entry.name.partition("-")[2], target):
            yield f"the runtime launches {path}/{entry.name}"
    wanted = f"/etc/systemd/system/multi-user.target.wants/{UNIT}"
    if host.exists(wanted):
        yield f"systemd starts {UNIT}"


def _recorder_fact(host: Host) -> Iterator[str]:
    recorder = first_process(host, ("nri-scope",), argument="record")
    if recorder is not None:
        yield (
            f"nri-scope record runs (process {recorder.pid}): another recorder would record every "
            "event again"
        )


def _program_problem(host: Host, program: Program, *, is_hidden: bool) -> str:
    """Return why root should not, or cannot, run the program; "" if nothing is wrong.

    ``is_hidden``: whether the folders of `_HIDDEN` are.
    """
    for path in program.files:
        hidden = next((one for one in _HIDDEN if path.startswith(f"{one}/")), "")
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
    host: Host, item: Installation | None, program: Program, has_systemd: bool
) -> Iterator[str]:
    config = None if item is None else item.config
    folder = path_of(config.plugin_path if config else None, DEFAULT_PLUGIN_PATH)
    if not host.exists(folder):
        yield f"sudo mkdir -p {shlex.quote(folder)}"
    yield f"sudo ln -s {shlex.quote(program.path)} {shlex.quote(f'{folder}/{_PLUGIN}')}"
    runtime = config.runtime if config else ""
    if config and runtime == "isulad":
        # iSulad launches only plugins with a configuration file.
        configs = path_of(config.plugin_config_path, DEFAULT_PLUGIN_CONFIG_PATH)
        yield f"sudo mkdir -p {shlex.quote(configs)}"
        yield f"sudo touch {shlex.quote(f'{configs}/{_PLUGIN}.conf')}"
    if has_systemd and runtime:
        yield f"sudo systemctl restart {_SERVICES[runtime]}"
    else:
        yield f"# restart {runtime_title(runtime) or 'the runtime'}"


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
        yield from _wrap(f"nothing to install: {plan.why}", width)
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
