# SPDX-License-Identifier: Apache-2.0
"""``nri-scope new-plugin``: create a plugin in Python or Go, with tests."""

from __future__ import annotations

import json
import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.metadata import distributions
from pathlib import Path
from string import Template

import click

from nri_scope.errors import UsageError

from .demo import bundled_path
from .params import ANY_PATH, INDEX

RECORDING = "containerd-1.7.nriscope.db"
"""File name of the recording for the plugin's tests."""
TEMPLATE = Path(__file__).parent.parent / "template"
"""Templates, by language.

``$name`` etc. are replaced in file names and contents, `SUFFIX` removed.
"""

SUFFIX = ".tmpl"
"""Suffix that keeps tools from treating templates as nri-scope's own code."""

NAME_MAX = 50
"""Maximum length of a plugin name, which keeps lines of the written files within 100 columns."""

_NAME = re.compile(r"[a-z]([a-z0-9._-]*[a-z0-9])?", re.ASCII | re.IGNORECASE)

_RESERVED = frozenset({"conftest", "google", "nri_scope", "pytest", "tests"})
"""Modules that a plugin module of the same name would shadow in the plugin or its tests."""


@click.command()
@click.argument("folder", metavar="DIR", type=ANY_PATH)
@click.option("--name", metavar="NAME", help="Plugin name.  [default: the name of DIR]")
@click.option(
    "--index",
    type=INDEX,
    default="10",
    show_default=True,
    help="Two-digit index: the plugin's default place in the chain.",
)
@click.option("--go", is_flag=True, help="Write it in Go, with the stub of containerd/nri.")
def command(folder: Path, name: str | None, index: str, go: bool) -> None:
    """Create a new plugin in Python or Go.

    Writes a small working plugin, tests that replay a recording to it, and a README to DIR, which
    must be new or empty. In Python, also a systemd unit and a pyproject.toml; in Go, a Makefile and
    a CI job.
    """
    name = check_plugin_name(folder.resolve().name if name is None else name, python=not go)
    written = write_plugin(folder, name, index, "go" if go else "python")
    for path in written:
        click.echo(path)
    click.echo(f"next: cd {shlex.quote(str(folder))} and follow README.md", err=True)


def check_plugin_name(name: str, *, python: bool) -> str:
    """Return ``name`` if it is valid for runtimes and, with ``python``, packages and modules."""
    if not _NAME.fullmatch(name) or len(name) > NAME_MAX:
        raise UsageError(
            f"{name!r} is not a valid plugin name",
            f"choose --name: a letter, then letters, digits and . _ -, at most {NAME_MAX}",
        )
    module = module_name(name)
    known = keyword.iskeyword(module) or module in sys.stdlib_module_names | _RESERVED
    if python and (known or _is_installed(module)):
        raise UsageError(
            f"{name!r} is not a valid plugin name: {module} is a Python module or keyword",
            "choose another with --name",
        )
    return name


def _is_installed(module: str) -> bool:
    """Return whether this Python environment already has a module of this name.

    Modules in the current directory are the user's own and do not count.
    """
    here = Path.cwd().resolve()
    # Python puts the current directory first under -m and with PYTHONPATH.
    places = [entry for entry in sys.path if Path(entry).resolve() != here]
    return PathFinder.find_spec(module, places) is not None


def module_name(name: str) -> str:
    """Return the Python module of the plugin ``name``."""
    return re.sub(r"[._-]+", "_", name).lower()


def _requirement() -> str:
    """Return the requirement of this nri-scope: by its address if it did not come from an index.

    pip records the address in ``direct_url.json`` (PEP 610).
    """
    installed = next(iter(distributions(name="nri-scope")), None)
    text = installed and installed.read_text("direct_url.json")
    match json.loads(text or "null"):
        case {"url": url, "vcs_info": {"vcs": vcs, "commit_id": commit}}:
            return f"nri-scope @ {vcs}+{url}@{commit}"
        case {"url": url}:
            return f"nri-scope @ {url}"
    return "nri-scope"


def write_plugin(folder: Path, name: str, index: str, language: str) -> list[Path]:
    """Write a new plugin into ``folder`` and return its files.

    Raises `UsageError` if the folder already has files; existing files are never overwritten.
    """
    if folder.exists() or folder.is_symlink():
        if not folder.is_dir():
            raise UsageError(f"{folder} exists and is not a folder", "choose a new folder")
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "choose a new folder")
    values = {
        "name": name,
        "index": index,
        "module": module_name(name),
        "recording": RECORDING,
        "requirement": _requirement(),
    }
    template = TEMPLATE / language
    written: list[Path] = []
    for source in _files(template):
        relative = Template(source.relative_to(template).as_posix()).substitute(values)
        path = folder / relative.removesuffix(SUFFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = Template(source.read_text(encoding="utf-8")).substitute(values)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        written.append(path)
    data = "testdata" if language == "go" else "tests/recordings"
    recording = folder / data / RECORDING
    recording.parent.mkdir(exist_ok=True)
    shutil.copyfile(bundled_path(RECORDING), recording)
    return sorted([*written, recording])


def _files(folder: Path) -> Iterator[Path]:
    found = sorted(folder.rglob(f"*{SUFFIX}"))
    if not found:
        raise UsageError("the plugin template is missing from this installation", "reinstall it")
    yield from found
