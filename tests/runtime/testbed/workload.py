# SPDX-License-Identifier: Apache-2.0
"""A small workload with unusual but realistic events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.cri.driver import Resources

from .driver import Driver
from .happened import Happened

SECRET = "hunter2"
"""Looks like a secret, and must be found by redaction."""

NOTE = "Grüße aus der Küche – 你好 ☕"


async def shop_and_jobs(driver: Driver, saw: Callable[[Happened], Awaitable[None]]) -> None:
    """Run two pods with an update, a job that exits, a failed start, and an unusual end.

    ``saw`` waits until an event was recorded: the runtime sends the end of a container that exits
    with a delay, and only then is the order of later events certain.
    """
    web = await driver.run_pod("shop", "web", {"example.com/note": NOTE})
    batch = await driver.run_pod("jobs", "batch", {"example.com/owner": "night shift"})

    env = {"DB_HOST": "db.shop.svc", "DB_PASSWORD": SECRET, "FOO": "from-the-pod"}
    app = await driver.create(web, "app", env=env)
    await driver.start(app)
    sidecar = await driver.run(web, "sidecar")
    await driver.update(app, Resources(cpu_shares=512, memory_limit=64 << 20))

    job = await driver.create(batch, "job", ("sh", "-c", "sleep 0.2; exit 3"))
    await saw(await driver.start_to_end(job))
    broken = await driver.create(batch, "broken", ("/no/such/binary",))
    await driver.fail_to_start(broken)

    await driver.stop(sidecar)
    await driver.remove(sidecar)
    # The pod is stopped first, its containers are removed afterwards.
    await driver.stop_pod(web)
    await driver.remove(app)
    await driver.remove(job)
    await driver.remove_pod(web)
    await driver.remove_pod(batch)
