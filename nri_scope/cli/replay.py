# SPDX-License-Identifier: Apache-2.0
"""``nri-scope replay``: a recording, fed to a plugin under development."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.cli.params import Duration, FilePath, Index, PluginName, where_option
from nri_scope.cli.timespec import FORMS, parse_moment
from nri_scope.errors import UsageError

if TYPE_CHECKING:
    from nri_scope.recorder.filter import Filter
    from nri_scope.replay.cast import Casting
    from nri_scope.replay.pace import Wait
    from nri_scope.replay.run import Job
    from nri_scope.replay.script import Bound

EXIT_DIFFERS = 1

_NO_PLUGINS = "none"
"""What ``--compare-with`` takes for a chain without any plugin."""


def _speed(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise click.BadParameter(f"{text!r} is no speed; write 1x, 10x or 0.5x", param=parameter)
    return speed


def _bound(context: click.Context, parameter: click.Parameter, text: str | None) -> Bound | None:
    import time

    from nri_scope.replay.script import Bound

    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return Bound(event_id=int(text[:18]))
    at_ns = parse_moment(text, time.time_ns())
    if at_ns is None:
        raise click.BadParameter(
            f"{text!r} is neither the number of an event nor a time; write 17 or {FORMS}",
            param=parameter,
        )
    return Bound(at_ns=at_ns)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("command_line", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="NN=COMMAND",
    help="A plugin of the chain, with its index. Several make a chain.",
)
@click.option("--index", type=Index(), help="Index of COMMAND.  [default: 10, or its file's]")
@click.option("--name", type=PluginName(), help="Name of COMMAND.  [default: its file's]")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="[NN=]FILE",
    help="Configuration that Configure brings to launched plugins, or to the one with this index.",
)
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME=VALUE",
    help="One more variable for launched plugins; a runtime gives them none but its own three.",
)
@click.option(
    "--listen",
    type=FilePath(),
    metavar="SOCK",
    help="Let plugins come by themselves, to this NRI socket.",
)
@click.option(
    "--expect",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Begin when so many have come to --listen.  [default: 1]",
)
@click.option("--session", type=click.IntRange(min=1), metavar="N", help="Session to replay.")
@where_option
@click.option("--from", "begin", callback=_bound, metavar="EVENT|TIME", help="First event to play.")
@click.option("--to", "end", callback=_bound, metavar="EVENT|TIME", help="First one not to play.")
@click.option("--only", default="", metavar="POD[/CTR]", help="Play ns/pod or ns/pod/container.")
@click.option(
    "--profile",
    default="recorded",
    show_default=True,
    metavar="NAME",
    help="Behave like this runtime: containerd-1.7, -2.1, -2.2, -2.3, cri-o or isulad.",
)
@click.option(
    "--no-effects",
    is_flag=True,
    help="Send what was recorded, byte for byte, whatever plugins answer.",
)
@click.option(
    "--speed", callback=_speed, metavar="1x", help="Keep the recorded pace, or N times it."
)
@click.option("--max-idle", type=Duration(), help="With --speed: wait no longer than this.")
@click.option("--step", is_flag=True, help="Wait for Enter before each event.")
@click.option(
    "--loop",
    "rounds",
    type=click.IntRange(1, 1_000_000),
    default=1,
    metavar="N",
    help="Play everything N times; the runtime restarts in between.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="FAULT",
    help="Something that goes wrong on purpose; see below.",
)
@click.option("-o", "--output", type=FilePath(), metavar="REC", help="Record the run itself.")
@click.option("--golden", type=FilePath(), metavar="FILE", help="Compare replies with these.")
@click.option("--update-golden", is_flag=True, help="Write --golden from these replies.")
@click.option(
    "--compare-with",
    "others",
    multiple=True,
    metavar="NN=COMMAND",
    help="Replay to this chain too ('none': to nobody), and compare the containers.",
)
@click.option("--junit", type=FilePath(), metavar="FILE", help="Write JUnit XML as well.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Lines for people, or one JSON object.",
)
def command(
    file: Path,
    command_line: tuple[str, ...],
    plugins: tuple[str, ...],
    index: str | None,
    name: str | None,
    configs: tuple[str, ...],
    variables: tuple[str, ...],
    listen: Path | None,
    expect: int | None,
    session: int | None,
    where: Filter | None,
    begin: Bound | None,
    end: Bound | None,
    only: str,
    profile: str,
    no_effects: bool,
    speed: float | None,
    max_idle: float | None,
    step: bool,
    rounds: int,
    faults: tuple[str, ...],
    output: Path | None,
    golden: Path | None,
    update_golden: bool,
    others: tuple[str, ...],
    junit: Path | None,
    output_format: str,
) -> None:
    """Feed a recording to a plugin under development, and see what it makes of it.

    An emulated runtime starts COMMAND as a real one would, sends it the events of a recorded
    session, merges what it answers, and tells what that did to each container. No container
    runtime is needed and nothing on this machine is touched. Later events show containers as the
    plugins of this replay have adjusted them.

    Exit status: 0 all replies are fine, or as the golden wants them; 1 they are not; 2 it could
    not be done.
    """
    from nri_scope.replay.faults import parse_faults
    from nri_scope.replay.player import Manner
    from nri_scope.replay.run import Job
    from nri_scope.replay.script import Choice

    from .replaying import Wishes, perform

    if update_golden and golden is None:
        raise UsageError("--update-golden needs --golden", "name the file to write")
    if golden is not None and rounds > 1:
        raise UsageError("--golden compares one round", "leave out --loop")
    if max_idle is not None and speed is None:
        raise UsageError("--max-idle bounds the pauses of --speed", "add --speed 1x")
    if expect is not None and listen is None:
        raise UsageError("--expect counts the plugins at --listen", "name its socket")
    if others and listen is not None:
        raise UsageError(
            "--compare-with needs plugins that can be started twice", "give them with --plugin"
        )
    job = Job(
        recording=file,
        casting=_casting(command_line, plugins, index, name, configs, variables, listen, expect),
        choice=Choice(session=session, where=where, only=only, begin=begin, end=end),
        manner=Manner(
            wait=_wait(speed, max_idle, step),
            faults=parse_faults(faults),
            effects=not no_effects,
        ),
        profile=profile,
        rounds=rounds,
        output=output,
    )
    wishes = Wishes(
        json=output_format == "json",
        junit=junit,
        golden=golden,
        update_golden=update_golden,
        other=_other(job, others),
    )
    if not perform(job, wishes):
        sys.exit(EXIT_DIFFERS)


def _casting(
    command_line: tuple[str, ...],
    plugins: tuple[str, ...],
    index: str | None,
    name: str | None,
    configs: tuple[str, ...],
    variables: tuple[str, ...],
    listen: Path | None,
    expect: int | None,
) -> Casting:
    from nri_scope.replay import chain
    from nri_scope.replay.cast import Casting

    commands = [chain.parse_plugin(text) for text in plugins]
    if command_line:
        commands.append(chain.command(command_line, index or "", name or ""))
    elif index or name:
        raise UsageError("--index and --name are for COMMAND", "write it after --")
    if not commands and listen is None:
        raise UsageError(
            "there is no plugin to replay to",
            "write its command after --, or use --plugin or --listen",
        )
    if configs and not commands:
        raise UsageError(
            "--config is for plugins that are launched",
            "runtimes send no configuration to those that come by themselves",
        )
    return Casting(
        plugins=tuple(commands),
        configs=_configs(configs, {one.index for one in commands}),
        environment=_environment(variables),
        listen=listen,
        expect=expect or (1 if listen is not None else 0),
    )


def _configs(texts: tuple[str, ...], indices: set[str]) -> dict[str, str]:
    configs: dict[str, str] = {}
    for text in texts:
        index, equals, rest = text.partition("=")
        if not equals or len(index) != 2 or not index.isdigit():
            index, rest = "", text
        elif index not in indices:
            raise UsageError(f"--config {text}: no plugin has index {index}")
        if index in configs:
            raise UsageError(f"--config {text}: there is one for the same plugin already")
        try:
            configs[index] = Path(rest).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise UsageError(f"--config {rest}: {words}", "name a readable file") from error
    return configs


def _environment(texts: tuple[str, ...]) -> dict[str, str]:
    environment: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {text!r} is no variable", "write NAME=VALUE")
        environment[name] = value
    return environment


def _wait(speed: float | None, max_idle: float | None, step: bool) -> Wait:
    from nri_scope.replay.pace import at_once, paced

    if step:
        if speed is not None:
            raise UsageError("--step and --speed are two ways to wait", "leave one of them out")
        from .replaying import stepped

        return stepped()
    if speed is None:
        return at_once
    return paced(speed, math.inf if max_idle is None else max_idle)


def _other(job: Job, texts: tuple[str, ...]) -> Job | None:
    from dataclasses import replace

    from nri_scope.replay import chain

    if not texts:
        return None
    if _NO_PLUGINS in texts and len(texts) > 1:
        raise UsageError("--compare-with none is a chain of its own", "leave out the others")
    plugins = () if texts == (_NO_PLUGINS,) else tuple(map(chain.parse_plugin, texts))
    casting = replace(job.casting, plugins=plugins, configs=job.casting.configs)
    return replace(job, casting=casting, output=None)
