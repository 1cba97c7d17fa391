# SPDX-License-Identifier: Apache-2.0
"""Checks of a runtime's configuration: NRI enabled, external plugins allowed, timeouts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from nri_scope.nri.events import DEFAULT_REGISTRATION_TIMEOUT_MS, DEFAULT_REQUEST_TIMEOUT_MS
from nri_scope.nri.versions import SortKey, infer, runtime_title, sort_key
from nri_scope.oci.runtime_rules import runtime_rules_of

from .check import Check, Health, fail, not_permitted, ok, unknown, unreadable, warn
from .host import RuntimeProcess
from .known_bugs import known_bugs
from .settings import NriConfig, Setting
from .sockets import Registration

# First versions with NRI in its current form, and with NRI on by default.
_SINCE = {"containerd": "1.7.0-beta.1", "cri-o": "1.26.0", "docker": "29.2.0-beta"}
_ON_SINCE = {"containerd": "2.0.0-beta.0", "cri-o": "1.30.0"}

SHORT_REGISTRATION_S = 1.0
SHORT_REQUEST_S = 0.1
"""Timeouts in seconds below which a briefly busy machine may cause plugins to be disconnected."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One runtime on this machine."""

    config: NriConfig
    version: str
    """Version reported by its program or on registration; "" if unknown."""
    process: RuntimeProcess | None
    registration: Registration | None = None
    """Result of the registration, if this runtime listens at the socket."""
    version_unknown: str = ""
    """Why the version is unknown; "" if no reason is known."""

    @property
    def root(self) -> str:
        """Prefix of paths to its files, if it has a mount namespace of its own."""
        return self.process.root if self.process else ""

    @property
    def title(self) -> str:
        """The runtime with its version."""
        return f"{runtime_title(self.config.runtime)} {self.version}".rstrip()

    @property
    def may_be_on(self) -> bool:
        """Whether its configuration does not switch NRI off."""
        setting = self.config.enabled
        if self.config.unreadable:
            return True
        if setting is None:
            return default_enabled(self.config.runtime, self.version) is not False
        return setting.value is True


_GENERATED = re.compile("/var/(?:lib/rancher|snap)/(k3s|rke2|microk8s)/")
"""Folders of Kubernetes distributions that generate containerd's configuration at each start."""
NO_RUNTIME = Installation(NriConfig("", ()), "", None)
"""Stands for the runtime where there is none."""


def distribution_of(config: NriConfig) -> str:
    """Return the Kubernetes distribution that generates a configuration; "" for none."""
    generated = _GENERATED.match(config.missing or "".join(config.files[:1]))
    return generated[1] if generated else ""


def default_enabled(runtime: str, version: str) -> bool | None:
    """Return whether NRI is on by default; None if that depends on the unknown version."""
    if runtime not in _ON_SINCE:
        return False
    key = sort_key(version)
    return None if key is None else key >= _key(_ON_SINCE[runtime])


def check_installation(installation: Installation) -> list[Check]:
    """Check one runtime's configuration."""
    prefix = installation.config.runtime
    settings = [
        *_enabled(f"{prefix}-enabled", installation),
        *_connections(f"{prefix}-connections", installation),
        *_timeouts(f"{prefix}-timeouts", installation),
        *_cdi(f"{prefix}-cdi", installation),
    ]
    if installation.config.unreadable and installation.registration is None:
        reason = "unless a file that could not be read sets it"
        settings = [_as_unknown(check, reason) for check in settings]
    return [
        *_version(f"{prefix}-version", installation),
        *_files(prefix, installation),
        *settings,
        *_misplaced(f"{prefix}-keys", installation.config),
        *_restart(f"{prefix}-restart", installation),
        *_defects(f"{prefix}-defects", installation),
    ]


def _defects(name: str, installation: Installation) -> Iterator[Check]:
    """Yield a warning or a note for each known bug that this version of the runtime has."""
    runtime, registration = installation.config.runtime, installation.registration
    nri = "" if registration is None else str(registration.runtime.version or "")
    if registration is None and not installation.may_be_on:
        return
    for bug in known_bugs().values():
        if bug.is_listed and bug.affects(runtime, installation.version, nri):
            status = Health.WARN if bug.advice else Health.NOTE
            yield Check(name, status, f"{bug.consequence} ({bug.reference})", bug.advice)


def _as_unknown(check: Check, reason: str) -> Check:
    if check.status is Health.UNKNOWN:
        return check
    return not_permitted(check.name, f"{check.detail} ({reason})")


def _key(version: str) -> SortKey:
    key = sort_key(version)
    assert key is not None
    return key


def _version(name: str, installation: Installation) -> Iterator[Check]:
    process = installation.process
    if process is None or installation.version or not installation.version_unknown:
        return
    runtime = runtime_title(installation.config.runtime)
    subject = f"the version of {runtime} (process {process.pid}, {process.program})"
    yield unknown(name, f"{subject} is unknown: {installation.version_unknown}")


def _files(prefix: str, installation: Installation) -> Iterator[Check]:
    config = installation.config
    for path, why in config.unreadable:
        yield unreadable(f"{prefix}-config", path, why)
    for problem in config.problems:
        make, text = fail if problem.fatal else warn, f"{problem.file}: {problem.text}"
        process = installation.process
        if process and process.started_at and 0 < problem.changed_at < process.started_at:
            # The runtime's own parser may accept a file that ours rejects.
            make, text = warn, f"{text}; but process {process.pid} started after its last change"
        yield make(f"{prefix}-config", text, problem.fix)
    if config.files:
        yield ok(f"{prefix}-config", f"{installation.title} reads {', '.join(config.files)}")
    elif config.missing and not config.unreadable and not config.problems:
        text = f"{installation.title} uses its defaults: {config.missing} does not exist"
        yield ok(f"{prefix}-config", text)
    for orphan in config.orphans:
        keys = f"{', '.join(orphan.keys)} in {orphan.table}"
        text = f"{orphan.file} sets {keys}, but {runtime_title(config.runtime)} does not read it"
        yield warn(f"{prefix}-drop-ins", text, _inclusion_fix(config))


def _inclusion_fix(config: NriConfig) -> str:
    if config.runtime == "containerd":
        main = config.missing or (config.files[0] if config.files else "its configuration")
        return f"add it to imports = [...] in {main} (patterns like conf.d/*.toml work)"
    return "move it into the drop-in folder, or remove it"


def _enabled(name: str, installation: Installation) -> Iterator[Check]:
    config, version = installation.config, installation.version
    runtime = runtime_title(config.runtime)
    key = sort_key(version)
    if key is not None and config.runtime in _SINCE and key < _key(_SINCE[config.runtime]):
        text = f"{installation.title} is too old for NRI in its current form"
        since = _SINCE[config.runtime].partition("-")[0].removesuffix(".0")
        yield fail(name, text, f"upgrade {runtime} to {since} or later")
        return

    setting = config.enabled
    is_serving = installation.registration is not None and installation.registration.configured
    fix, lines = _change(installation, config.enabling, setting)
    if setting is not None and not isinstance(setting.value, bool):
        text = f"{_label(setting)} is {setting.value!r}, neither true nor false"
        yield fail(name, text, fix, lines)
    elif setting is not None and setting.value is True:
        yield ok(name, f"NRI is enabled in {setting.origin}")
    elif setting is not None and is_serving:
        text = f"NRI works, but {setting.origin} disables it from the next restart on"
        yield warn(name, text, fix, lines)
    elif setting is not None:
        yield fail(name, f"NRI is disabled: {_label(setting)}", fix, lines)
    elif is_serving:
        yield ok(
            name, f"NRI is on in {installation.title}, and the configuration does not disable it"
        )
    else:
        yield _by_default(name, installation)


def _by_default(name: str, installation: Installation) -> Check:
    config = installation.config
    if config.unreadable:
        return not_permitted(name, "not all of the configuration could be read")
    match default_enabled(config.runtime, installation.version):
        case True:
            nri = infer(config.runtime, installation.version)
            with_nri = f" (NRI {nri})" if nri else ""
            return ok(name, f"NRI is on by default in {installation.title}{with_nri}")
        case False:
            text = f"NRI is off by default in {installation.title}, and no file enables it"
            return fail(name, text, *_change(installation, config.enabling, None))
        case None:
            since = _ON_SINCE[config.runtime].partition("-")[0].removesuffix(".0")
            text = f"not configured; NRI is on by default since {since}, but the version is unknown"
            fix, lines = _change(installation, config.enabling, None)
            fix = f"check the version of {installation.title}; before {since}, {fix}"
            return unknown(name, text, fix, lines)


def _connections(name: str, installation: Installation) -> Iterator[Check]:
    config = installation.config
    setting = config.connections
    if setting is None:
        return
    fix, lines = _change(installation, config.connecting, setting)
    if not isinstance(setting.value, bool):
        text = f"{_label(setting)} is {setting.value!r}, neither true nor false"
        yield fail(name, text, fix, lines)
    elif setting.value:
        yield ok(name, f"external plugins may connect: {_label(setting)}")
    elif installation.registration is not None:
        text = f"external plugins can connect only until the next restart: {_label(setting)}"
        yield warn(name, text, fix, lines)
    else:
        text = f"external plugins cannot connect: {_label(setting)}"
        yield fail(name, text, fix, lines)


def _change(installation: Installation, line: str, setting: Setting | None) -> tuple[str, str]:
    """Return the fix that makes a setting, and the lines for the file that it names.

    ``line``: of `NriConfig`. ``setting``: the present one.
    """
    config = installation.config
    restart = _restarting(config)
    origin = "" if setting is None else setting.file
    if setting is not None and setting.key.endswith("disabled_plugins"):
        what = "CRI" if setting.key.startswith("CRI") else "NRI"
        return f"remove {what} from disabled_plugins in {origin}, and {restart}", ""
    if setting is not None and setting.is_argument:
        return f"change its command line, and {restart}", ""
    file = origin or config.missing or (config.files[0] if config.files else "its configuration")
    if config.drop_in and origin < config.drop_in and config.drop_in not in config.tables:
        # Later files override earlier ones.
        file = config.drop_in
    table = config.nri_table
    if not table:
        if file == config.missing:
            return f"create {file} with this content, and {restart}", f"{{\n  {line}\n}}"
        change = "change this member of" if origin else "add this member to"
        return f"{change} the JSON object in {file}, and {restart}", line
    if setting is not None and origin == file:
        table = setting.table or table
    lines = f"{table}\n  {line}"
    if distribution := distribution_of(config):
        # From the distributions' documentation: https://docs.k3s.io/advanced and microk8s.io/docs.
        template = "containerd-template.toml"
        if distribution != "microk8s":
            is_third = _file_version(installation) == "version = 3\n"
            template = "config-v3.toml.tmpl" if is_third else "config.toml.tmpl"
            template += ' (a new file begins with the line {{ template "base" . }})'
        target = f"{file.rpartition('/')[0]}/{template}, the template of {file}"
        return f"set this in {target}, and restart {distribution}", lines
    if file in config.tables:
        return f"set this in the table of {file}, and {restart}", lines
    if file == config.missing or file == config.drop_in:
        version = _file_version(installation)
        return f"create {file} with these lines, and {restart}", f"{version}{lines}"
    return f"add these lines to {file}, and {restart}", lines


def _restarting(config: NriConfig) -> str:
    """Return how to apply a configuration. A restart of Docker Engine stops its containers."""
    verb = "reload" if config.runtime == "docker" else "restart"
    return f"{verb} {distribution_of(config) or runtime_title(config.runtime)}"


def _file_version(installation: Installation) -> str:
    """Return the first line of a new configuration file; "" if files have no version."""
    if installation.config.runtime != "containerd":
        return ""
    # containerd 2.x also reads version 2, which 1.x needs for NRI's table.
    key = sort_key(installation.version)
    return f"version = {3 if key is not None and key[0] >= 2 else 2}\n"


def _timeouts(name: str, installation: Installation) -> Iterator[Check]:
    config = installation.config
    reported = (installation.registration or Registration()).runtime
    for label, setting, reported_ms, short, default_ms in zip(
        ("registration", "request"),
        (config.registration_timeout, config.request_timeout),
        (reported.registration_timeout_ms, reported.request_timeout_ms),
        (SHORT_REGISTRATION_S, SHORT_REQUEST_S),
        (DEFAULT_REGISTRATION_TIMEOUT_MS, DEFAULT_REQUEST_TIMEOUT_MS),
        strict=True,
    ):
        default = default_ms / 1000
        if setting is None:
            if reported_ms and reported_ms != default_ms:
                # From the command line, an unknown file, or an older version of a file.
                text = f"{label} timeout is {reported_ms / 1000:g} s, which no file read here sets"
                yield warn(name, text)
            continue
        seconds = _seconds(config.runtime, setting.value)
        if seconds is None:
            text = f"{_label(setting)} is {setting.value!r}, which is not a "
            if config.runtime == "isulad" and isinstance(setting.value, str):
                text += f"number: it has no effect, and {default:g} s are used"
                yield warn(name, text, f"write it like {default:g}")
                continue
            example = f"{default:g}" if config.runtime == "isulad" else f'"{default:g}s"'
            yield fail(name, f"{text}duration", f"write it like {example}")
        elif seconds == 0:
            yield ok(name, f"{_label(setting)} is 0, which means the default of {default:g} s")
        elif seconds < short:
            text = f"{_label(setting)} is {seconds:g} s: even short delays disconnect plugins"
            yield warn(name, text, f"the default is {default:g} s")
        elif reported_ms and round(seconds * 1000) != reported_ms:
            text = (
                f"{_label(setting)} is {seconds:g} s, but the runtime uses {reported_ms / 1000:g} s"
            )
            yield warn(name, text, f"restart {runtime_title(config.runtime)} to apply it")
        else:
            yield ok(name, f"{label} timeout {seconds:g} s, from {setting.origin}")


def _seconds(runtime: str, value: object) -> float | None:
    if runtime == "isulad":
        return float(value) if type(value) is int else None
    if isinstance(value, str):
        return parse_go_duration(value)
    # containerd 2.x rejects a bare number; the others read nanoseconds, which is never intended.
    return None


def _cdi(name: str, installation: Installation) -> Iterator[Check]:
    runtime = installation.config.runtime
    if text := runtime_rules_of(runtime, installation.version).drops_cdi_devices:
        yield warn(name, text, "for CDI, update to containerd 1.7.30 or 2.1, or CRI-O 1.34")
    for setting in installation.config.cdi.values():
        text = f"{_label(setting)} is {json.dumps(setting.value, default=str)}"
        if setting.value is False:
            text += ": plugins cannot add CDI devices (2.1 and 2.4 fail such a creation)"
            yield warn(name, text, "set it to true if a plugin uses CDI")
        else:
            yield ok(name, text)


def _misplaced(name: str, config: NriConfig) -> Iterator[Check]:
    for item in config.misplaced:
        subject = f"{item.key} in {item.table} of {item.file}"
        if item.right:
            yield warn(name, f"{subject} has no effect there", f"move it to {item.right}")
        else:
            text = f"{subject} is not a known NRI setting; runtimes ignore unknown settings"
            yield warn(name, text, "correct its spelling, or remove it")


def _restart(name: str, installation: Installation) -> Iterator[Check]:
    process, config = installation.process, installation.config
    if process is None:
        return
    fix = _restarting(config)
    if process.replaced:
        text = f"{process.program} was replaced after process {process.pid} had started"
        yield warn(name, text, fix.replace("reload", "restart"))
    if process.started_at is not None and config.changed_at > process.started_at + 1:
        changed = datetime.fromtimestamp(config.changed_at, UTC)
        text = f"the configuration was changed after the start, at {changed:%Y-%m-%d %H:%M:%S} UTC"
        yield warn(name, text, f"{fix} if an NRI setting was changed")


def _label(setting: Setting) -> str:
    table = f"{setting.table} of " if setting.table else ""
    return f"{setting.key} in {table}{setting.origin}"


_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TERM = re.compile(r"(\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse_go_duration(text: str) -> float | None:
    """Return seconds, or None if Go rejects ``text``, such as a number without unit."""
    sign = -1 if text.startswith("-") else 1
    unsigned = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if unsigned == "0":
        return 0.0
    seconds, position = 0.0, 0
    while position < len(unsigned):
        term = _TERM.match(unsigned, position)
        if term is None:
            return None
        seconds += float(term[1]) * _SECONDS[term[2]]
        position = term.end()
    return sign * seconds if position else None
