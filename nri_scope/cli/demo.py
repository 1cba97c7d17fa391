# SPDX-License-Identifier: Apache-2.0
"""``nri-scope demo``: show a recording of a real containerd, and what to try on it."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from pathlib import Path

import click

from nri_scope.errors import UsageError, reason_of
from nri_scope.text.escape import safe

from .log import command as log
from .params import output_option
from .tui import show_recording, tui_obstacle

RECORDING = "demo.nriscope.db"
"""File name of the recording."""


@click.command()
@output_option("Copy of the recording to write and show.")
@click.option("--log", "as_log", is_flag=True, help="Print the events instead of showing `tui`.")
@click.pass_context
def command(context: click.Context, output: Path | None, as_log: bool) -> None:
    """See nri-scope at work, without a container runtime.

    Shows a recording of six plugins at a real containerd: changes with their owners, a slow plugin,
    a conflict. `tui` shows a copy, which is removed afterwards unless it is named; if there is no
    terminal, the log is printed. Every other command can be tried on the recording.
    """
    file = bundled_path() if output is None else _copy(output)
    reason = "" if as_log else tui_obstacle()
    if reason:
        click.echo(f"demo: {reason}; printing the log instead", err=True)
    if as_log or reason:
        context.invoke(log, file=file)
    elif output is not None:
        show_recording(file)
    else:
        # Marks are stored beside the recording.
        with tempfile.TemporaryDirectory(prefix="nri-scope-demo-") as folder:
            show_recording(_copy(Path(folder, RECORDING)))
    click.echo(conclusion(file))


def bundled_path(name: str = RECORDING) -> Path:
    """Return the path of a sample recording, in an installed package or in a checkout."""
    package = Path(__file__).parent.parent
    for folder in (package / "recordings", package.parent / "recordings"):
        if (folder / name).is_file():
            return folder / name
    raise UsageError(
        f"the recording {name} is missing from this installation",
        "install nri-scope again",
    )


def _copy(file: Path) -> Path:
    """Copy the recording to ``file``. Raises UsageError if it exists or cannot be written."""
    source = bundled_path()
    try:
        with file.open("xb") as copy:
            file.chmod(0o600)
            copy.write(source.read_bytes())
    except FileExistsError as error:
        raise UsageError(f"{file}: file exists", "choose a new name") from error
    except OSError as error:
        raise UsageError(f"{file}: {reason_of(error)}") from error
    return file


def conclusion(file: Path) -> str:
    """Return the recording's path, and commands to try on it."""
    program = program_name()
    plugin = f"{shlex.quote(sys.executable)} my-plugin/my_plugin.py"
    path, root_program = safe(shlex.quote(str(file.absolute()))), _with_path(program)
    return f"""
The recording is
  {path}
Every command can be tried on it:

  # browse it
  {program} tui {path}

  # who changed this container?
  {program} blame {path} payments-prod/checkout-api-7d9f8c6b5d-x2x9z/checkout-api

  # what did the plugins change, event by event?
  {program} diff {path}

  # which plugin was slow, missing or in conflict?
  {program} report {path} --diagnose

  # a plugin of my own
  {program} new-plugin my-plugin

  # what would it do with these events?
  {program} replay {path} -- {plugin}

On a machine that runs containers:

  # does NRI work here?
  {program} doctor

  # record real events, until ^C
  sudo {root_program} record --print text"""


def _with_path(program: str) -> str:
    """Return a program's command for sudo, whose PATH has no virtual environments."""
    found = shutil.which(program)
    return shlex.quote(found) if found else program


def program_name() -> str:
    """Return the command that starts this program from a shell."""
    called = Path(sys.argv[0])
    if called.name != "nri-scope":
        return f"{shlex.quote(sys.executable)} -m nri_scope"
    found = shutil.which("nri-scope")
    if found and called.exists() and Path(found).samefile(called):
        return "nri-scope"
    return shlex.quote(str(called))
