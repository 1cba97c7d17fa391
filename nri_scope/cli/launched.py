# SPDX-License-Identifier: Apache-2.0
"""Record as a pre-installed plugin, /opt/nri/plugins/NN-nri-scope, launched by a runtime."""

from __future__ import annotations

import asyncio

from nri_scope.errors import NriScopeError
from nri_scope.logger.launched import LaunchedPlugin
from nri_scope.logger.service import watch_clock
from nri_scope.plugin import Launched, PluginSession, inherited, launched
from nri_scope.transport.loop import prepare_process, run


def record_launched() -> int:
    """Record until the runtime closes the connection or kills this process."""
    try:
        launch = launched()
    except NriScopeError:
        launch = None
    if launch is None:
        return 2
    prepare_process()
    return run(_record(launch))


async def _record(launch: Launched) -> int:
    plugin = LaunchedPlugin(launch.identity)
    session = PluginSession(launch.identity, plugin)
    heartbeat = asyncio.create_task(watch_clock(plugin.report_stall))
    try:
        end = await session.run(inherited(launch.descriptor))
    except NriScopeError as error:
        await plugin.finish(session.ended(str(error)))
        return 2
    finally:
        heartbeat.cancel()
    await plugin.finish(end)
    return 0
