# SPDX-License-Identifier: Apache-2.0
"""Start the plugins of a replay or wait for them, observe them, and collect their results."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nri_scope.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    NriScopeError,
    UsageError,
    limit_words,
)
from nri_scope.nri.events import REGISTER
from nri_scope.nri.identity import plugin_id
from nri_scope.plugin import Identity, inherited, serve
from nri_scope.runtime import (
    GRACE_S,
    EmulatedRuntime,
    ExternalPlugin,
    Plugin,
    Process,
    Rejection,
    SetupStage,
    Stream,
    registers_itself,
)

from .plugin_command import PluginCommand
from .result import PluginResult, PrintedLine

CONNECT_TIMEOUT_S = 30.0
"""Seconds for external plugins to connect."""
REMIND_S = 3.0
"""Seconds after which a message says that an external plugin has not connected yet."""
RECONNECT_TIMEOUT_S = 10.0
"""Seconds for external plugins to reconnect after their connections were closed."""


@dataclass(frozen=True, slots=True)
class InProcess:
    """Plugin in this process: an object with handlers, see `nri_scope.plugin`."""

    index: str
    name: str
    handlers: object

    @property
    def id(self) -> str:
        """``NN-name``."""
        return plugin_id(self.index, self.name)


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Plugins of a replay, and how they are started or connect."""

    plugins: tuple[PluginCommand | InProcess, ...] = ()
    """Plugins that the replay starts."""
    configs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Configuration of started plugins by index; key "" for indices not listed."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Additional environment variables of launched plugins."""
    listen: Path | None = None
    """A socket for external plugins."""
    expect: int = 0
    """Number of external plugins that must connect before the replay begins."""
    own_index: set[PluginCommand] = field(default_factory=set[PluginCommand], compare=False)
    """Launched plugins that turned out to set their own index, so that the next replay starts them
    as external ones at once."""
    grace_s: float = GRACE_S
    """Seconds in which launched plugins may end by themselves after the replay; 0 to kill them."""
    must_reconnect: bool = False
    """Whether a started external plugin fails if it ends instead of connecting again."""

    @property
    def has_externals(self) -> bool:
        """Whether there are plugins that set their own index and name."""
        return self.listen is not None or any(
            isinstance(plugin, PluginCommand) and plugin.external for plugin in self.plugins
        )

    def config(self, index: str) -> str:
        """Return the configuration of the plugin with this index."""
        return self.configs.get(index, self.configs.get("", ""))


class ReplayPlugins:
    """Plugins of one replay, started or awaited at the beginning and after each restart."""

    def __init__(
        self,
        plugin_set: PluginSet,
        on_output: Callable[[PrintedLine], None],
        last_event: Callable[[], int],
        on_notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``last_event``: returns the number of the event being played. ``on_notice`` is called
        with messages for the user.
        """
        self._plugin_set = plugin_set
        self._runtime: EmulatedRuntime
        """Set by `enter`."""
        self._on_output = on_output
        self._on_notice = on_notice
        self._last_event = last_event
        self._results: dict[str, PluginResult] = {}
        self._present: dict[Plugin, None] = {}
        self._ended: dict[Process, set[str]] = {}
        """Processes whose connections have ended, with the plugins that they registered."""
        self._started: set[str] = set()
        """Plugins that the replay started."""
        self._externals: set[str] = set()
        """The external ones of these."""
        self._serving: set[asyncio.Task[None]] = set()
        self._failed_setups: set[str] = set()
        self._is_disconnecting = False
        self._closing = False

    def results(self) -> list[PluginResult]:
        """Return the result of each plugin, in the order of their indices."""
        self._collect_exits()
        return sorted(self._results.values(), key=lambda result: result.plugin)

    def _collect_exits(self) -> None:
        """Store how processes ended, which is final once the runtime is down."""
        for process, plugins in list(self._ended.items()):
            results = [self._results[each] for each in plugins & self._results.keys()]
            if not results or process.running:
                continue
            del self._ended[process]
            for result in results:
                result.left_behind += tuple(child.command for child in process.left_behind)
                if not process.ended_by_us:
                    result.exit = process.exit_words
                result.ending = process.ending_words

    # -- notifications of the runtime ---------------------------------------------------------

    def ready(self, plugin: Plugin) -> None:
        """Record that a plugin is set up, and receives events."""
        self._present[plugin] = None
        result = self._results.setdefault(plugin.id, PluginResult(plugin.id, ""))
        result.gone, result.gone_after = "", 0

    def failed_setup(self, plugin: Plugin) -> None:
        """Record that the plugin's Synchronize failed, which does not end the replay."""
        self._results.setdefault(plugin.id, PluginResult(plugin.id, ""))
        self._failed_setups.add(plugin.id)

    def ended(self, plugin: Plugin) -> bool:
        """Record the end of a plugin's connection; return whether it disconnected by itself."""
        if plugin.process is not None:
            self._ended.setdefault(plugin.process, set()).add(plugin.id)
        was_ready = plugin in self._present
        self._present.pop(plugin, None)
        result = self._results.get(plugin.id)
        if result is None or self._closing:
            return False
        result.gone = plugin.end_reason
        result.gone_after = self._last_event() if was_ready else 0
        is_early = was_ready and not self._is_disconnecting
        if is_early:
            result.deserted = f"disconnected between requests: {plugin.end_reason}"
        return is_early

    async def lost(self, plugin_id: str) -> str:
        """Wait until a plugin lost during a request has ended, and return the reason."""
        await self._runtime.wait_for(
            lambda: (
                not any(plugin.id == plugin_id and plugin.link.closed for plugin in self._present)
            )
        )
        result = self._results.get(plugin_id)
        if result is None:
            return ""
        # Its end may have been recorded as one between requests, as the rest of the chain was
        # called meanwhile.
        result.deserted = ""
        return result.gone

    def read_output(self) -> None:
        """Read the available output of plugins."""
        for plugin in self._present:
            if plugin.process is not None:
                plugin.process.read_output()

    # -- start, restart and end ---------------------------------------------------------------

    async def enter(self, runtime: EmulatedRuntime) -> None:
        """Start plugins, and wait for external ones.

        Raises `UsageError` if a plugin does not become ready.
        """
        self._runtime = runtime
        if self._plugin_set.listen is not None:
            await self._runtime.listen(self._plugin_set.listen)
        for plugin in self._in_order():
            if isinstance(plugin, PluginCommand):
                await self._launch(plugin)
            else:
                self._add(plugin.id, "in this process")
                await self._adopt(plugin)
        await self._await_others(_connect_timeout_s(self._runtime))

    async def restart(self) -> None:
        """Stop and start the runtime; return once the plugins have reconnected."""
        rejected_before = self._runtime.rejected
        self._is_disconnecting = True
        try:
            await self._runtime.restart()
        finally:
            self._is_disconnecting = False
        self._count_starts()
        self._collect_exits()
        for rejection in _rejected_since(self._runtime, rejected_before):
            result = self._results.get(rejection.plugin)
            if result is not None:
                result.deserted = f"failed to restart: {rejection.reason}"
        for plugin in self._in_order():
            if isinstance(plugin, InProcess):
                await self._adopt(plugin)
        await self._await_reconnects()

    def _add(self, plugin: str, command: str) -> PluginResult:
        self._started.add(plugin)
        result = self._results.setdefault(plugin, PluginResult(plugin, ""))
        result.command = command
        return result

    async def disconnect(self, reason: str) -> None:
        """Close all connections; return once external plugins have reconnected.

        Runtimes do not relaunch a plugin, but service managers start external ones again.
        """
        self._is_disconnecting = True
        try:
            for plugin_id in {plugin.id for plugin in self._runtime.plugins}:
                await self._runtime.drop(plugin_id, reason)
        finally:
            self._is_disconnecting = False
        await self._runtime.start_externals()
        self._count_starts()
        await self._await_reconnects()

    def _count_starts(self) -> None:
        """Count the external plugins that ended with their connections, and were started again."""
        for process, names in self._ended.items():
            for name in names & self._externals if not process.running else ():
                result = self._results[name]
                result.started_again += 1
                if self._plugin_set.must_reconnect:
                    result.deserted = "ended with its connection instead of connecting again"

    async def _await_reconnects(self) -> None:
        """Wait for external plugins to reconnect; record a failure for any that does not."""

        def missing() -> set[str]:
            return self._externals - {plugin.id for plugin in self._runtime.plugins}

        with suppress(TimeoutError):
            async with asyncio.timeout(RECONNECT_TIMEOUT_S):
                await self._runtime.wait_for(lambda: not missing())
        for name in missing():
            self._results[name].deserted = f"did not reconnect within {RECONNECT_TIMEOUT_S:g} s"
        try:
            await self._await_others(RECONNECT_TIMEOUT_S)
        except UsageError as error:
            present = {plugin.id for plugin in self._present}
            for name in self._results.keys() - self._started - present:
                self._results[name].deserted = f"did not reconnect: {error.problem}"

    def leave(self) -> None:
        """Record that the replay is ending, so that later disconnects are not failures."""
        self._closing = True

    def _in_order(self) -> list[PluginCommand | InProcess]:
        return sorted(self._plugin_set.plugins, key=lambda plugin: plugin.index)

    async def _launch(self, plugin: PluginCommand) -> str:
        """Start a plugin; return each index and name that it has registered."""
        if plugin in self._plugin_set.own_index:
            plugin = replace(plugin, external=True)
        name = plugin.title

        def printed(stream: Stream, text: str, mono_ns: int) -> None:
            self._on_output(PrintedLine(name, str(stream), text, mono_ns))

        config = self._plugin_set.config(plugin.index)
        environment = self._plugin_set.environment
        try:
            if plugin.external:
                external = ExternalPlugin(plugin.argv, environment, on_output=printed)
                names = sorted(each.id for each in await self._start_external(external, name))
                for name in names:
                    self._add_external(name, plugin)
                return ", ".join(names)
            self._add(plugin.id, str(plugin))
            await self._runtime.launch_command(
                plugin.argv,
                plugin.index,
                plugin.name,
                config=config,
                environment=environment,
                on_output=printed,
            )
        except ConnectionClosed as error:
            ended = self._runtime.former[-1] if self._runtime.former else None
            if ended is not None and ended.id in self._failed_setups:
                return ended.id
            process = ended.process if ended is not None else None
            if process is None or plugin.external or not registers_itself(process):
                raise _start_error(plugin.title, error) from error
        else:
            return plugin.id
        # Forget this attempt.
        self._ended.pop(process, None)
        self._started.discard(plugin.id)
        del self._results[plugin.id]
        self._on_notice(
            f"{plugin.id} sets its own index, so it is started again as an external plugin"
            f"{', without a configuration' if config else ''}"
        )
        self._plugin_set.own_index.add(plugin)
        registered = await self._launch(plugin)
        if registered != plugin.id:
            self._on_notice(f"{plugin.id} registered as {registered}")
        return registered

    async def _start_external(self, process: ExternalPlugin, title: str) -> list[Plugin]:
        def remind() -> None:
            if not process.has_connected:
                waiting = f"{title} has not connected to its socket yet, the replay waits"
                self._on_notice(f"{waiting}; {process.socket_hint}")

        reminder = asyncio.get_running_loop().call_later(REMIND_S, remind)
        try:
            return await self._runtime.launch_external(process, _connect_timeout_s(self._runtime))
        finally:
            reminder.cancel()

    def _add_external(self, name: str, plugin: PluginCommand) -> None:
        if name in self._started:
            raise UsageError(
                f"two plugins register as {name}", "start one of them with another index or name"
            )
        self._externals.add(name)
        self._add(name, str(plugin)).external = True

    async def _adopt(self, plugin: InProcess) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

        async def session() -> None:
            with suppress(NriScopeError):
                await serve(
                    plugin.handlers,
                    Identity(index=plugin.index, name=plugin.name),
                    inherited(theirs.detach()),
                )

        task = asyncio.create_task(session())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            await self._runtime.adopt(ours, self._plugin_set.config(plugin.index))
        except ConnectionClosed as error:
            if plugin.id not in self._failed_setups:
                raise _start_error(plugin.id, error) from error

    async def _await_others(self, seconds: float) -> None:
        expected = self._plugin_set.expect
        if not expected or self._plugin_set.listen is None:
            return
        started = self._started
        rejected_before = self._runtime.rejected

        def has_expected() -> bool:
            failed = self._failed_setups - started
            came = {plugin.id for plugin in self._runtime.plugins} - started
            return len(failed | came) >= expected

        def refused() -> list[Rejection]:
            return [
                rejection
                for rejection in _rejected_since(self._runtime, rejected_before)
                if rejection.plugin and rejection.stage is not SetupStage.SYNCHRONIZATION
            ]

        try:
            async with asyncio.timeout(seconds):
                await self._runtime.wait_for(lambda: has_expected() or bool(refused()))
        except TimeoutError:
            count = "no plugin" if expected == 1 else f"fewer than {expected} plugins"
            raise UsageError(
                f"{count} connected to {self._plugin_set.listen} within {seconds:g} s",
                "start the plugin while the replay waits",
            ) from None
        if not has_expected():
            # A retry would fail the same way, so report the reason.
            rejection = refused()[0]
            raise UsageError(
                f"{rejection.plugin} connected to {self._plugin_set.listen} and was rejected: "
                f"{rejection.reason}"
            )


def _connect_timeout_s(runtime: EmulatedRuntime) -> float:
    # Without deadlines, a plugin also has any time to connect.
    return max(CONNECT_TIMEOUT_S, runtime.profile.registration_timeout_ms / 1e3)


def _rejected_since(runtime: EmulatedRuntime, before: int) -> list[Rejection]:
    """Return the stored rejections after the first ``before`` ones."""
    new = runtime.rejected - before
    return list(runtime.rejections)[-new:] if new else []


def _start_error(plugin: str, error: ConnectionClosed) -> UsageError:
    reason, hint = error.reason, ""
    if isinstance(cause := error.__cause__, DeadlineExceeded) and cause.method == REGISTER:
        text = f"it did not register within {limit_words(cause.timeout)}"
        reason, hint = reason.replace(str(cause), text), "if it connects by itself, add --external"
    return UsageError(f"{plugin} failed to start: {reason}", hint)
