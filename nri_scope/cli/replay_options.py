# SPDX-License-Identifier: Apache-2.0
"""Options of ``replay`` and ``replay compare``: validation, and the resulting job."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

from nri_scope.errors import UsageError, reason_of
from nri_scope.replay.checked_replay import Checks
from nri_scope.replay.faults import parse_faults
from nri_scope.replay.playback import PlaybackOptions
from nri_scope.replay.plugin_command import given_command, parse_plugin
from nri_scope.replay.plugins import PluginSet
from nri_scope.replay.run import Job
from nri_scope.replay.script import ReplaySelection
from nri_scope.tap.wrapper import check_unwrapped

from .chain_options import VERBATIM, WITH_SYNC, PlayOptions, runtime_named
from .params import environment_of
from .recording_views import resolved_where
from .replay_output import PrintedEvents
from .time_arguments import places_of

NO_PLUGINS = "none"
"""Value of ``--with`` for a chain without plugins."""

CONFIG_MAX = 1 << 20
"""Maximum size of a configuration in bytes; a ttRPC message has at most 4 MiB."""


class ReplayOptions(PlayOptions):
    """The options as click passes them."""

    pace: tuple[float, float] | None
    """Speed, and maximum seconds of a pause."""
    max_took: float | None
    output: Path | None
    golden: Path | None
    update_golden: bool
    junit: Path | None
    output_format: str


class CompareOptions(PlayOptions):
    """The options as click passes them."""

    others: tuple[str, ...]
    without: tuple[str, ...]
    junit: Path | None
    output_format: str


def selected_job(options: PlayOptions) -> Job:
    """Return the job for the options that all commands which replay share. Raises `UsageError`."""
    listen, profile = options["listen"], options["profile"]
    if listen is not None and not listen.socket.absolute().parent.is_dir():
        raise UsageError(
            f"--listen {listen.socket}: no such folder", "create it, or choose another"
        )
    plugin_set = _plugin_set(options)
    begin, end = places_of(options["file"], options["since"], options["until"])
    return Job(
        recording=options["file"],
        plugin_set=plugin_set,
        selection=ReplaySelection(
            session=options["session"],
            where=resolved_where(options["file"], options["where"]),
            only=options["only"],
            begin=begin,
            end=end,
        ),
        playback=PlaybackOptions(
            faults=parse_faults(options["faults"]),
            effects=not profile.startswith(VERBATIM),
            timeout_s=options["timeout"],
        ),
        profile=runtime_named(profile),
        ideal=profile.endswith(WITH_SYNC),
        notes=options["notes"],
    )


def parse_options(options: ReplayOptions) -> tuple[Job, Checks, PrintedEvents | None]:
    """Return the arguments of `perform`. Raise `UsageError` for conflicting options."""
    golden, update = options["golden"], options["update_golden"]
    _check_files(
        {
            "FILE": options["file"],
            "-o": options["output"],
            "--golden": golden if update else None,
            "--junit": options["junit"],
        }
    )
    form = options["output_format"]
    events = None if form == "json" else PrintedEvents(form)
    job = selected_job(options)
    speed, max_idle_s = options["pace"] or (None, math.inf)
    job = replace(
        job,
        playback=replace(
            job.playback,
            speed=speed,
            max_idle_s=max_idle_s,
            max_took_ns=int((options["max_took"] or 0) * 1e9),
        ),
        output=options["output"],
        # Events that are only printed need not stay in memory.
        keep=bool(events is None or golden or options["junit"]),
    )
    return job, Checks(junit=options["junit"], golden=golden, update_golden=update), events


def parse_comparison(options: CompareOptions) -> tuple[Job, Checks, PrintedEvents | None]:
    """Return the arguments of `perform` for two chains. Raise `UsageError`."""
    _check_files({"FILE": options["file"], "--junit": options["junit"]})
    if options["profile"].startswith(VERBATIM):
        raise UsageError(
            f"compare and --profile {VERBATIM} exclude each other: it ignores replies",
            "leave it out",
        )
    job = selected_job(options)
    if options["others"]:
        other = _compared(job.plugin_set, options["others"], external=options["external"])
        label = "with the other chain"
    else:
        other, label = _without(job.plugin_set, options["without"])
    checks = Checks(junit=options["junit"], other=replace(job, plugin_set=other), other_label=label)
    return job, checks, None if options["output_format"] == "json" else PrintedEvents.PROBLEMS


def _check_files(named: dict[str, Path | None]) -> None:
    """Raise UsageError if two options name the same file."""
    option_of: dict[Path, str] = {}
    for option, path in named.items():
        if path is None:
            continue
        other = option_of.setdefault(Path(os.path.realpath(path)), option)
        if other != option:
            raise UsageError(
                f"{other} and {option} name the same file, {path}", "use different files"
            )


def _plugin_set(options: PlayOptions) -> PluginSet:
    external, listen = options["external"], options["listen"]
    commands = [parse_plugin(text, external=external) for text in options["plugins"]]
    index, name = options["index"], options["name"]
    if options["command_line"]:
        commands.append(given_command(options["command_line"], index, name, external=external))
    for each in commands:
        check_unwrapped(each.argv[0])
    launched = {plugin.index for plugin in commands if not plugin.external}
    return PluginSet(
        plugins=tuple(commands),
        configs=_configs(options["configs"], launched),
        environment=environment_of(options["variables"]),
        listen=None if listen is None else listen.socket,
        expect=0 if listen is None else listen.expected,
        grace_s=options["grace"],
        must_reconnect=options["must_reconnect"],
    )


def _configs(texts: tuple[str, ...], indices: set[str]) -> dict[str, str]:
    configs: dict[str, str] = {}
    for text in texts:
        index, equals, rest = text.partition("=")
        if not equals or len(index) != 2 or not index.isdigit():
            index, rest = "", text
        elif index not in indices:
            raise UsageError(f"--config {text}: no plugin has index {index}", "correct the index")
        if index in configs:
            raise UsageError(
                f"--config {text}: this plugin already has a configuration", "leave one of them out"
            )
        configs[index] = _read(rest)
    return configs


def _read(file: str) -> str:
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(CONFIG_MAX + 1)
        if len(data) > CONFIG_MAX:
            raise UsageError(f"--config {file}: larger than 1 MiB", "use a smaller file")
        return data.decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        words = reason_of(error) if isinstance(error, OSError) else "not text"
        raise UsageError(f"--config {file}: {words}", "name a readable UTF-8 file") from error


def _compared(plugin_set: PluginSet, texts: tuple[str, ...], *, external: bool) -> PluginSet:
    if NO_PLUGINS in texts and len(texts) > 1:
        raise UsageError("--with none excludes other --with options", "leave it out")
    given = () if texts == (NO_PLUGINS,) else texts
    plugins = tuple(parse_plugin(text, external=external) for text in given)
    return replace(plugin_set, plugins=plugins)


def _without(plugin_set: PluginSet, indices: tuple[str, ...]) -> tuple[PluginSet, str]:
    known = sorted({each.index for each in plugin_set.plugins})
    for index in indices:
        if index not in known:
            raise UsageError(
                f"--without {index}: no plugin has index {index}",
                f"the chain has {', '.join(known)}",
            )
    left_out = [each.id for each in plugin_set.plugins if each.index in indices]
    plugins = tuple(each for each in plugin_set.plugins if each.index not in indices)
    return replace(plugin_set, plugins=plugins), f"without {' and '.join(left_out)}"
