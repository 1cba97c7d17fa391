# SPDX-License-Identifier: Apache-2.0
"""Checks of a runtime's configuration: whether NRI is on, open to plugins, and its timeouts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from nri_scope.nri.methods import DEFAULT_REGISTRATION_TIMEOUT_MS, DEFAULT_REQUEST_TIMEOUT_MS
from nri_scope.nri.versions import SortKey, infer, runtime_title, sort_key

from .check import Check, Status, fail, ok, unknown, warn
from .processes import RuntimeProcess
from .registration import Registration
from .settings import NriConfig, Setting

# First versions with NRI in its current form, and with NRI on by default.
_SINCE = {"containerd": "1.7.0-beta.1", "cri-o": "1.26.0"}
_ON_SINCE = {"containerd": "2.0.0-beta.0", "cri-o": "1.30.0"}

SHORT_REGISTRATION = 1.0
SHORT_REQUEST = 0.1
"""Timeout in seconds below which a plugin is disconnected because the machine was briefly busy."""


@dataclass(frozen=True, slots=True)
class Installation:
    """A runtime as it is installed here, with the known facts about it."""

    config: NriConfig
    version: str
    """Version as reported by its program or its registration; "" if unknown."""
    process: RuntimeProcess | None
    registration: Registration | None = None
    """The runtime's answers when nri-scope registered, if this runtime is the one that listens."""
    version_unknown: str = ""
    """Why the version is unknown, if that is known."""

    @property
    def title(self) -> str:
        """The runtime with its version."""
        return f"{runtime_title(self.config.runtime)} {self.version}".rstrip()


def default_enabled(runtime: str, version: str) -> bool | None:
    """Return whether NRI is on by default; None if the version is not known."""
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
    ]
    if installation.config.unreadable and installation.registration is None:
        because = "unless a file that could not be read says otherwise"
        settings = [_doubted(check, because) for check in settings]
    return [
        *_version(f"{prefix}-version", installation),
        *_files(prefix, installation),
        *settings,
        *_misplaced(f"{prefix}-keys", installation.config),
        *_restart(f"{prefix}-restart", installation),
    ]


def _doubted(check: Check, because: str) -> Check:
    if check.status is Status.UNKNOWN:
        return check
    return unknown(check.name, f"{check.detail} ({because})", "run doctor as root")


def _key(version: str) -> SortKey:
    key = sort_key(version)
    assert key is not None
    return key


def _version(name: str, installation: Installation) -> Iterator[Check]:
    process = installation.process
    if process is None or installation.version or not installation.version_unknown:
        return
    runtime = runtime_title(installation.config.runtime)
    what = f"the version of {runtime} (process {process.pid}, {process.program})"
    yield unknown(name, f"{what} is unknown: {installation.version_unknown}")


def _files(prefix: str, installation: Installation) -> Iterator[Check]:
    config = installation.config
    for path, why in config.unreadable:
        yield unknown(f"{prefix}-config", f"{path}: {why}", "run doctor as root")
    for problem in config.problems:
        make, text = fail if problem.fatal else warn, f"{problem.file}: {problem.text}"
        process = installation.process
        if process and process.started_at and 0 < problem.changed_at < process.started_at:
            # The runtime's own parser may accept a file that ours refuses.
            make, text = warn, f"{text}; but process {process.pid} has started since"
        yield make(f"{prefix}-config", text, problem.fix)
    if config.files:
        yield ok(f"{prefix}-config", f"{installation.title} reads {', '.join(config.files)}")
    elif config.missing and not config.unreadable and not config.problems:
        text = f"{installation.title} runs on its defaults: there is no {config.missing}"
        yield ok(f"{prefix}-config", text)
    for orphan in config.orphans:
        keys = f"{', '.join(orphan.keys)} in {orphan.table}"
        text = f"{orphan.file} sets {keys}, but {runtime_title(config.runtime)} does not read it"
        yield warn(f"{prefix}-drop-ins", text, _adopt(config))


def _adopt(config: NriConfig) -> str:
    if config.runtime == "containerd":
        main = config.missing or (config.files[0] if config.files else "its configuration")
        return f"name it in imports = [...] of {main} (patterns like conf.d/*.toml work)"
    return "move it into the drop-in folder, or remove it"


def _enabled(name: str, installation: Installation) -> Iterator[Check]:
    config, version = installation.config, installation.version
    runtime = runtime_title(config.runtime)
    key = sort_key(version)
    if key is not None and config.runtime in _SINCE and key < _key(_SINCE[config.runtime]):
        text = f"{installation.title} is too old for today's NRI"
        since = _SINCE[config.runtime].partition("-")[0].removesuffix(".0")
        yield fail(name, text, f"upgrade {runtime} to {since} or newer")
        return

    setting = config.enabled
    answered = installation.registration is not None and installation.registration.configured
    fix = f"set {config.enable_key} and restart {runtime}"
    if setting is not None and not isinstance(setting.value, bool):
        yield fail(name, f"{_where(setting)} is {setting.value!r}, neither true nor false", fix)
    elif setting is not None and setting.value is True:
        yield ok(name, f"NRI is switched on in {setting.origin}")
    elif setting is not None and answered:
        text = f"NRI works, but {setting.origin} switches it off: it ends with the next restart"
        yield warn(name, text, f"set {config.enable_key}")
    elif setting is not None:
        yield fail(name, f"NRI is switched off: {_where(setting)}", fix)
    elif answered:
        yield ok(name, f"NRI is on in {installation.title} and the configuration leaves it so")
    else:
        yield _by_default(name, installation, fix)


def _by_default(name: str, installation: Installation, fix: str) -> Check:
    config = installation.config
    if config.unreadable:
        return unknown(name, "not all of the configuration could be read", "run doctor as root")
    match default_enabled(config.runtime, installation.version):
        case True:
            nri = infer(config.runtime, installation.version)
            with_nri = f" (NRI {nri})" if nri else ""
            return ok(name, f"NRI is on by default in {installation.title}{with_nri}")
        case False:
            text = f"NRI is off by default in {installation.title} and nothing switches it on"
            return fail(name, text, fix)
        case None:
            since = _ON_SINCE[config.runtime].partition("-")[0].removesuffix(".0")
            text = f"the configuration is silent; on by default since {since}, version unknown"
            return unknown(name, text, f"see what {installation.title} --version says")


def _connections(name: str, installation: Installation) -> Iterator[Check]:
    config = installation.config
    setting = config.connections
    if setting is None:
        return
    fix = f"set {config.connections_key} and restart {runtime_title(config.runtime)}"
    if not isinstance(setting.value, bool):
        yield fail(name, f"{_where(setting)} is {setting.value!r}, neither true nor false", fix)
    elif setting.value:
        yield ok(name, f"plugins may connect: {_where(setting)}")
    elif installation.registration is not None:
        text = f"plugins can connect, until the next restart: {_where(setting)}"
        yield warn(name, text, f"set {config.connections_key}")
    else:
        text = f"only plugins that the runtime starts are served: {_where(setting)}"
        yield fail(name, text, fix)


def _timeouts(name: str, installation: Installation) -> Iterator[Check]:
    config, registration = installation.config, installation.registration
    told = registration if registration is not None and registration.configured else None
    for label, setting, short, default_ms, told_ms in (
        (
            "registration",
            config.registration_timeout,
            SHORT_REGISTRATION,
            DEFAULT_REGISTRATION_TIMEOUT_MS,
            told.registration_timeout_ms if told else 0,
        ),
        (
            "request",
            config.request_timeout,
            SHORT_REQUEST,
            DEFAULT_REQUEST_TIMEOUT_MS,
            told.request_timeout_ms if told else 0,
        ),
    ):
        default = default_ms / 1000
        if setting is None:
            if told_ms and told_ms != default_ms:
                # The value may come from the command line, an unseen file, or a file changed since.
                text = f"{label} timeout is {told_ms / 1000:g} s, set in no file that we read"
                yield warn(name, text)
            continue
        seconds = _seconds(config.runtime, setting.value)
        if seconds is None:
            text = f"{_where(setting)} is {setting.value!r}, which is no duration"
            example = f"{default:g}" if config.runtime == "isulad" else f'"{default:g}s"'
            yield fail(name, text, f"write for example {example}, with the unit")
        elif seconds == 0:
            yield ok(name, f"{_where(setting)} is 0, which means the default of {default:g} s")
        elif seconds < short:
            text = f"{_where(setting)} is {seconds:g} s: a short delay disconnects a plugin"
            yield warn(name, text, f"the default is {default:g} s")
        elif told_ms and round(seconds * 1000) != told_ms:
            text = f"{_where(setting)} is {seconds:g} s, but the runtime uses {told_ms / 1000:g} s"
            yield warn(name, text, f"restart {runtime_title(config.runtime)} to make it count")
        else:
            yield ok(name, f"{label} timeout {seconds:g} s, from {setting.origin}")


def _seconds(runtime: str, value: object) -> float | None:
    if runtime == "isulad" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return parse_go_duration(value)
    # containerd 2.x refuses a bare number, and the others take it as nanoseconds: never intended.
    return None


def _misplaced(name: str, config: NriConfig) -> Iterator[Check]:
    for item in config.misplaced:
        where = f"{item.key} in {item.table} of {item.file}"
        if item.right:
            yield warn(name, f"{where} has no effect there", f"move it to {item.right}")
        else:
            text = f"{where} is no setting of NRI that is known; runtimes ignore unknown ones"
            yield warn(name, text, "check its spelling, or remove it")


def _restart(name: str, installation: Installation) -> Iterator[Check]:
    process, config = installation.process, installation.config
    if process is None:
        return
    fix = f"restart {runtime_title(config.runtime)}"
    if process.replaced:
        text = f"{process.program} was replaced since process {process.pid} started from it"
        yield warn(name, text, fix)
    if process.started_at is not None and config.changed_at > process.started_at + 1:
        changed = datetime.fromtimestamp(config.changed_at, UTC)
        text = f"the configuration was changed after the start ({changed:%Y-%m-%d %H:%M:%S} UTC)"
        yield warn(name, text, f"{fix} if that was about NRI")


def _where(setting: Setting) -> str:
    return f"{setting.key} in {setting.origin}".replace("] in ", "] of ")


_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_TERM = re.compile(r"(\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def parse_go_duration(text: str) -> float | None:
    """Return seconds, or None if Go would refuse ``text``; a number without unit is refused."""
    sign = -1 if text.startswith("-") else 1
    rest = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if rest == "0":
        return 0.0
    seconds, position = 0.0, 0
    while position < len(rest):
        term = _TERM.match(rest, position)
        if term is None:
            return None
        seconds += float(term[1]) * _SECONDS[term[2]]
        position = term.end()
    return sign * seconds if position else None
