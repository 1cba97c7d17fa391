# SPDX-License-Identifier: Apache-2.0
"""``nri-scope scenario``: write, make and compile scenarios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nri_scope.errors import UsageError

from .params import (
    ANY_PATH,
    SIZE,
    NewFile,
    force_option,
    only_option,
    output_option,
    say,
    session_option,
    set_option,
    where_option,
)

if TYPE_CHECKING:
    from nri_scope.filter import Filter
    from nri_scope.scenario.manifest.node_facts import CgroupDriver
    from nri_scope.scenario.model import Scenario


@click.group("scenario")
def command() -> None:
    """Describe what a runtime tells plugins, as text.

    A scenario is a YAML file with pods, containers and what happens to them. `replay`,
    `debug`, `tui` and pytest take it in place of a recording. They also take a manifest of
    Kubernetes, as in `nri-scope replay pod.yaml -- ./my-plugin`.
    """


_output = click.option(
    "-o",
    "--output",
    type=NewFile("a scenario", is_text=True),
    metavar="FILE",
    help="File to write.  [default: stdout]",
)


@command.command("compile")
@click.argument("file", metavar="SCENARIO", type=ANY_PATH)
@output_option("Recording to write.", "X.nriscope.db", required=True)
@set_option
@force_option
def compile_command(file: Path, output: Path, changes: tuple[str, ...], force: bool) -> None:
    """Write a scenario as a recording.

    The recording has the requests that the scenario's runtime would send to a passive plugin, and
    says that they were not observed. The same scenario always leads to the same requests. `-` reads
    the scenario from standard input.
    """
    from nri_scope.scenario.compile import compile_scenario
    from nri_scope.scenario.document import source_name
    from nri_scope.scenario.field_assignments import assign_fields
    from nri_scope.scenario.playable import read_scenario
    from nri_scope.share.output_files import Outputs

    scenario, notes = read_scenario(file)
    assign_fields(scenario, changes)
    _say_all(source_name(file), notes)
    with Outputs(output, file, force=force) as outputs:
        draft = outputs.new(output.suffix)
        count = compile_scenario(scenario, draft)
        outputs.place(draft)
    say(f"{output}: written, with {count:,} events")


@command.command("from-recording")
@click.argument("file", type=ANY_PATH)
@_output
@session_option
@only_option
@where_option
@set_option
@force_option
def from_recording_command(
    file: Path,
    output: Path | None,
    session: int | None,
    only: str,
    where: Filter | None,
    changes: tuple[str, ...],
    force: bool,
) -> None:
    """Write an editable scenario of a recording.

    Replayed, it leads to the same requests as the recording, with the same ids. The times of
    containers differ. What the plugins of that time changed in a container is not part of it; the
    replayed plugins change the container as the runtime created it. The text contains everything
    that the runtime sent, secrets included.
    """
    from nri_scope.scenario.recorded_scenario import read_recording

    from .recording_views import resolved_where

    where = resolved_where(file, where)
    scenario, notes = read_recording(file, session, only=only, where=where)
    _write(scenario, changes, [f"Made from a recording: {file.name}"], notes, output, force=force)


@command.command("from-pod")
@click.argument("file", type=ANY_PATH)
@_output
@click.option(
    "--profile",
    "profile",
    metavar="NAME",
    help="The runtime, such as containerd-2.1 or cri-o; an unknown name lists the valid ones.",
)
@click.option(
    "--cgroup-driver",
    type=click.Choice(["systemd", "cgroupfs"]),
    default="systemd",
    show_default=True,
    help="The kubelet's driver of cgroups.",
)
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    help="Namespace of objects without one.",
)
@click.option(
    "--node-memory",
    type=SIZE,
    metavar="SIZE",
    help="Memory of the node, such as 64GiB, for oom_score_adj.  [default: 16GiB]",
)
@set_option
@force_option
def from_pod_command(
    file: Path,
    output: Path | None,
    profile: str | None,
    cgroup_driver: str,
    namespace: str,
    node_memory: int | None,
    changes: tuple[str, ...],
    force: bool,
) -> None:
    """Write a scenario of a Kubernetes manifest.

    FILE has pods, or objects that make pods, such as a Deployment, as in `kubectl get pods -o
    yaml`; `-` reads standard input. The scenario has what a kubelet and the runtime would tell
    plugins when the pods start. What only a cluster knows, such as ids, is derived from it.
    """
    from nri_scope.scenario.document import read_text, source_name
    from nri_scope.scenario.manifest_scenario import is_scenario, scenario_of_manifest
    from nri_scope.scenario.model import DEFAULT_PROFILE, RuntimeChoice

    driver: CgroupDriver = "cgroupfs" if cgroup_driver == "cgroupfs" else "systemd"
    text = read_text(file)
    if is_scenario(text):
        raise UsageError(
            f"{source_name(file)}: a scenario already, not a manifest",
            "`replay` plays it, and `scenario compile` makes it a recording",
        )
    scenario, notes = scenario_of_manifest(
        text,
        source_name(file),
        RuntimeChoice(profile or DEFAULT_PROFILE),
        cgroup_driver=driver,
        namespace=namespace,
        node_memory=node_memory,
    )
    heading = [f"Made from a manifest: {file.name}"] if file != Path("-") else []
    _write(scenario, changes, heading, notes, output, force=force)


def _write(
    scenario: Scenario,
    changes: Sequence[str],
    heading: Iterable[str],
    notes: Sequence[str],
    output: Path | None,
    *,
    force: bool,
) -> None:
    """Write the text of a scenario, with the notes as comments, which are printed, too."""
    from nri_scope.recording.file.file_errors import error_words
    from nri_scope.recording.file.trusted_location import write_private
    from nri_scope.scenario.field_assignments import assign_fields
    from nri_scope.scenario.text import scenario_text

    assign_fields(scenario, changes)
    text = scenario_text(scenario, [*heading, *notes])
    if output is None:
        click.echo(text, nl=False)
    else:
        try:
            write_private(output, text.encode(), only_new=not force)
        except FileExistsError:
            hint = "name another file, or replace it with --force"
            raise UsageError(f"{output} exists", hint) from None
        except OSError as error:
            problem = f"{output}: cannot be written: {error_words(error)}"
            raise UsageError(problem, "name another file after -o") from error
    for note in notes:
        say(f"note: {note}")


def _say_all(source: str, notes: Iterable[str]) -> None:
    for note in notes:
        say(f"{source}: {note}")
