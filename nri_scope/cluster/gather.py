# SPDX-License-Identifier: Apache-2.0
"""Read the recordings of many nodes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from nri_scope._gen.agent.nri_scope.agent import v1
from nri_scope.errors import RecordingError, UsageError
from nri_scope.filter.moments import interval, utc
from nri_scope.filter.parser import MAX_LENGTH
from nri_scope.process.private_folders import make_private_folder
from nri_scope.recording.bundle.unpack import MAX_BUNDLE
from nri_scope.recording.file.file_errors import error_words
from nri_scope.recording.file.temporary_files import temporary_folder
from nri_scope.recording.node_files import MAX_RECORDINGS, NAME, SUFFIX
from nri_scope.recording.reading.reader import Recording
from nri_scope.text.quantities import size

from .agent_client import AgentClient, AgentError, each_node
from .agent_pods import NO_AGENT, AgentPod, NamedPod
from .kubectl import Kubectl
from .pull import pull
from .target import pod_filter

READ_TIMEOUT_S = 300.0
"""Seconds for everything that one node sends."""
READ_TOGETHER = 8
"""Number of nodes that are read at the same time."""
_T = TypeVar("_T")
Answers = tuple[dict[str, _T], dict[str, str]]
"""Answers by node, and for nodes without one the reason."""


async def read_nodes(
    kubectl: Kubectl,
    agents: dict[str, AgentPod],
    request: v1.GetEventsRequest,
    read: Callable[[Recording], _T],
) -> Answers[_T]:
    """Copy the events of each node to a temporary recording, and pass it to ``read``."""
    with temporary_folder() as folder:

        def _read(path: Path) -> _T:
            with Recording.open(path) as recording:
                return read(recording)

        async def copied(agent: AgentPod) -> _T:
            path = folder / f"{agent.node}{SUFFIX}"
            await pull(AgentClient(kubectl, agent).events(request), agent.node, path)
            try:
                # In a thread, so that the other calls are answered meanwhile.
                return await asyncio.to_thread(_read, path)
            except RecordingError as error:
                raise AgentError(agent.node, f"its events: {error.problem}") from error
            finally:
                path.unlink()

        answers: dict[str, _T] = {}
        silent: dict[str, str] = {}
        async for node, answer in each_node(
            agents, copied, timeout=READ_TIMEOUT_S, together=READ_TOGETHER
        ):
            if isinstance(answer, AgentError):
                silent[node] = answer.problem
            else:
                answers[node] = answer
        return answers, silent


async def collect_bundles(
    kubectl: Kubectl,
    agents: Mapping[str, AgentPod],
    pods: Mapping[str, Sequence[NamedPod]],
    folder: Path,
    say: Callable[[str], None],
) -> bool:
    """Save the bundles of pods of several nodes to a folder; return whether all could be read.

    ``agents`` and ``pods`` are by node. ``say`` is called with a line for each file, and for each
    node or recording that was not collected. Raises UsageError if a file or the folder cannot be
    written; the files of this node are then removed.
    """
    _create_folder(folder)
    problems: list[str] = []

    def report(problem: str) -> None:
        problems.append(problem)
        say(problem)

    async def save(agent: AgentPod) -> list[Path]:
        client = AgentClient(kubectl, agent)
        paths: list[Path] = []
        try:
            for number, (where, some) in enumerate(pods_filters(pods[agent.node]), 1):
                request = v1.GetRecordingRequest(where=where, namespaces=namespaces_of(some))
                suffix = f"-{number}" if number > 1 else ""
                await _save_bundles(client, request, folder, suffix, paths, report)
        except BaseException:
            for path in paths:
                path.unlink(missing_ok=True)
            raise
        return paths

    for node in sorted(pods.keys() - agents.keys()):
        report(f"{node}: not collected: {NO_AGENT}")
    asked = {node: agent for node, agent in agents.items() if node in pods}
    async for node, answer in each_node(
        asked, save, timeout=READ_TIMEOUT_S, together=READ_TOGETHER
    ):
        if isinstance(answer, AgentError):
            report(f"{node}: not collected: {answer.problem}")
            continue
        if not answer:
            report(f"{node}: not collected: its recordings have no events of these pods")
        for path in answer:
            say(f"{path}: {size(path.stat().st_size)}")
    return not problems


async def _save_bundles(
    client: AgentClient,
    request: v1.GetRecordingRequest,
    folder: Path,
    suffix: str,
    paths: list[Path],
    say: Callable[[str], None],
) -> None:
    """Write a node's bundles as ``NODE-RECORDING<suffix>.nriscope.zip``; add them to ``paths``.

    ``say`` is called with a line for each recording that the node cannot read. Raises AgentError,
    and UsageError if a file exists or cannot be written; the files must then be removed.
    """
    before = len(paths)
    name: str | None = None
    file: BinaryIO | None = None
    size = 0
    try:
        async with aclosing(client.recordings(request)) as responses:
            async for response in responses:
                if response.problem:
                    say(f"{client.node}: {response.recording} not collected: {response.problem}")
                    continue
                if file is None or response.recording != name:
                    if file is not None:
                        file.close()
                    name, size = response.recording, 0
                    path = folder / f"{client.node}-{name}{suffix}.nriscope.zip"
                    is_good = NAME.fullmatch(name) and path not in paths
                    if not is_good or len(paths) - before >= MAX_RECORDINGS:
                        raise AgentError(client.node, "it sends bundles that no agent sends")
                    file = _create(path)
                    paths.append(path)
                size += len(response.data)
                if size > MAX_BUNDLE:
                    raise AgentError(client.node, f"a bundle of more than {MAX_BUNDLE:,} bytes")
                try:
                    file.write(response.data)
                except OSError as error:
                    raise _unwritable(paths[-1], error) from error
    finally:
        if file is not None:
            with suppress(OSError):
                file.close()


def in_utc(since: str, until: str) -> tuple[str, str]:
    """Return times that a user typed as times that are the same on each node, at each attempt.

    Times relative to a recording's first or last event are relative to now. "" stays "". Raises
    UsageError.
    """
    since_ns, until_ns = interval(since, until)
    return (
        "" if since_ns is None else utc(since_ns),
        "" if until_ns is None else utc(until_ns, is_end=True),
    )


def by_node(pods: Iterable[NamedPod]) -> dict[str, list[NamedPod]]:
    """Return the pods that run on a node, by its name."""
    pods_of: dict[str, list[NamedPod]] = {}
    for pod in pods:
        if pod.node:
            pods_of.setdefault(pod.node, []).append(pod)
    return pods_of


def namespaces_of(pods: Iterable[NamedPod]) -> list[str]:
    """Return the namespaces of pods, sorted."""
    return sorted({pod.namespace for pod in pods})


def pods_filters(pods: Iterable[NamedPod], where: str = "") -> list[tuple[str, list[NamedPod]]]:
    """Return filters of the events about these pods, each with its pods.

    Several, as a filter has a maximum length. ``where`` is a condition for all events.
    """
    common = f" ({where})" if where else ""
    groups: list[tuple[str, list[NamedPod]]] = []
    for pod in pods:
        term = f"({pod_filter(pod.namespace, pod.name)})"
        if groups and len(f"({groups[-1][0]} OR {term}){common}") <= MAX_LENGTH:
            groups[-1] = (f"{groups[-1][0]} OR {term}", [*groups[-1][1], pod])
        else:
            groups.append((term, [pod]))
    return [(f"({some}){common}", named) for some, named in groups]


def _create_folder(folder: Path) -> None:
    """Create a folder, and missing ones above it. Raises UsageError."""
    try:
        make_private_folder(folder)
    except OSError as error:
        problem = f"{folder}: cannot be created: {error_words(error)}"
        raise UsageError(problem, "name another folder") from error


def _create(path: Path) -> BinaryIO:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", 0)
    except FileExistsError:
        raise UsageError(f"{path}: file exists", "choose an empty folder") from None
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path}: cannot be written: {error_words(error)}")
