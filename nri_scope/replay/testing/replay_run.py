# SPDX-License-Identifier: Apache-2.0
"""Run a replay in a test, which may be a coroutine, with plugins as objects or commands."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple, cast

import nri_scope.plugin
from nri_scope.errors import UsageError
from nri_scope.nri.identity import check_index, check_name
from nri_scope.plugin.serving import handlers_of
from nri_scope.transport.loop import run

from ..plugin_command import DEFAULT_INDEX, PluginCommand, command
from ..plugins import InProcess, PluginSet
from ..result import Replayed
from ..run import Job, replay

Find = Callable[[str], str]
"""Returns the path of a file given relative to a test."""


def plugin_set_of(
    plugin: object,
    *,
    index: str = "",
    name: str = "",
    config: str | Mapping[str, str] = "",
    environment: Mapping[str, str] | None = None,
    external: bool = False,
    find: Find = str,
) -> PluginSet:
    """Parse ``plugin``: one plugin, or a mapping from "NN" or "NN-name" to plugins.

    A plugin is an object with handlers, or a command: a list, a path, or a string in shell quoting.
    ``config`` is for all plugins, or a mapping by index. ``external``: start commands as external
    plugins. Raises `UsageError`.
    """
    if isinstance(plugin, Mapping):
        several = cast("Mapping[object, object]", plugin)
        if not several:
            raise UsageError("the mapping of plugins is empty", "add a plugin")
        if index or name:
            raise UsageError(
                "index and name are not valid with a mapping of plugins",
                'use its keys, for example "10-mine"',
            )
        plugins = tuple(
            _plugin(item, *_split(key), find, external=external) for key, item in several.items()
        )
    else:
        plugins = (_plugin(plugin, index, name, find, external=external),)
    configs = {"": config} if isinstance(config, str) else dict(config)
    for unknown in configs.keys() - {item.index for item in plugins} - {""}:
        raise UsageError(f"config for {unknown!r}: no plugin has this index")
    return PluginSet(plugins, configs, dict(environment or {}))


def _split(key: object) -> tuple[str, str]:
    if not isinstance(key, str):
        raise UsageError(f"{key!r} is not a plugin index", 'write it as text: "10"')
    index, _, name = key.partition("-")
    return check_index(index), name


def _plugin(
    plugin: object, index: str, name: str, find: Find, *, external: bool
) -> PluginCommand | InProcess:
    argv = _argv(plugin)
    if argv is None:
        # Raises UsageError for objects without handlers, which would never register.
        handlers_of(plugin)
        return InProcess(
            check_index(index or DEFAULT_INDEX), check_name(name or _name_of(plugin)), plugin
        )
    if not argv or not argv[0]:
        raise UsageError("the plugin's command is empty", "name a program")
    program = find(argv[0]) if "/" in argv[0] else argv[0]
    return command((program, *argv[1:]), index, name, external=external)


def _argv(plugin: object) -> tuple[str, ...] | None:
    """Return the words of a command; None if ``plugin`` is not a command."""
    match plugin:
        case str():
            try:
                return tuple(shlex.split(plugin))
            except ValueError as error:
                raise UsageError(f"{plugin!r}: {str(error).lower()}", "check its quotes") from error
        case os.PathLike():
            return (_word(plugin),)
        case list() | tuple():
            return tuple(map(_word, cast("Iterable[object]", plugin)))
    return None


def _word(word: object) -> str:
    if isinstance(word, str):
        return word
    path = os.fspath(cast("os.PathLike[str]", word)) if isinstance(word, os.PathLike) else None
    if not isinstance(path, str):
        raise UsageError(f"{word!r} is not valid in a command", "use texts and paths")
    return path


def _name_of(plugin: object) -> str:
    """Derive a name from the class: "my-device" from "MyDevice", "my" from "MyPlugin"."""
    dashed = re.sub(
        r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+", "-", type(plugin).__name__
    )
    name = dashed.strip("-").lower()
    return name.removesuffix("-plugin") or "plugin"


_LOG = logging.getLogger("nri_scope.plugin")
_OURS = str(Path(nri_scope.plugin.__file__).parent)


class HandlerError(NamedTuple):
    """Exception raised by a handler."""

    where: str
    """Handler and subject: ``create_container shop/web/app``."""
    error: BaseException
    """Its traceback begins in the handler."""

    def lines(self) -> Iterator[str]:
        """Yield its traceback as Python prints it."""
        for text in traceback.format_exception(self.error):
            yield from text.splitlines()


@contextmanager
def collect_handler_errors() -> Iterator[list[HandlerError]]:
    """Collect exceptions of handlers in the block. They are still logged, and sent as errors."""
    errors: list[HandlerError] = []
    level, effective = _LOG.level, _LOG.getEffectiveLevel()

    def collect(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            errors.append(HandlerError(record.getMessage(), _from_handler(error)))
        # Drop records below the level in effect before.
        return record.levelno >= effective

    _LOG.addFilter(collect)
    _LOG.setLevel(logging.DEBUG)
    try:
        yield errors
    finally:
        _LOG.setLevel(level)
        _LOG.removeFilter(collect)


def _from_handler(error: BaseException) -> BaseException:
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OURS):
        frames = frames.tb_next
    return error.with_traceback(frames) if frames is not None else error


def perform(job: Job) -> tuple[Replayed, list[HandlerError]]:
    """Replay; return the result, and exceptions of handlers in this process.

    If an event loop is running in this thread, the replay runs in another thread with its own loop.
    Raises the errors of `replay`.
    """
    with collect_handler_errors() as errors:
        return _in_thread(job) if _in_coroutine() else run(replay(job)), errors


def _in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_thread(job: Job) -> Replayed:
    done = Future[Replayed]()
    cancel: list[Callable[[], object]] = []
    begin, cancelled = Event(), Event()

    async def main() -> Replayed:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        assert task is not None
        cancel.append(lambda: loop.call_soon_threadsafe(task.cancel))
        if cancelled.is_set():
            raise asyncio.CancelledError
        return await replay(job)

    def work() -> None:
        begin.wait()
        try:
            done.set_result(run(main()))
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            done.set_exception(error)

    # Handlers run in the context of the calling test, as they do without a thread.
    thread = Thread(target=copy_context().run, args=(work,), name="nri_replay", daemon=True)
    thread.start()
    try:
        # Inside the try block, as an exception before it would leave the replay running.
        begin.set()
        # Wait for the result, not the thread: until Python 3.12, an interrupted join marks the
        # thread as ended.
        return done.result()
    finally:
        if not done.done():
            # ^C is raised in the test's thread only, and must not leave plugins running.
            cancelled.set()
            for stop in cancel:
                stop()
            wait([done])
        thread.join()
