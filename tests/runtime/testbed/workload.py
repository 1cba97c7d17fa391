# SPDX-License-Identifier: Apache-2.0
"""A small workload with everything in it that real nodes do and tidy examples leave out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.cri.driver import Resources

from .driver import Driver
from .happened import Happened

SECRET = "hunter2"
"""Not a secret: what a redaction has to find."""

NOTE = "Grüße aus der Küche – 你好 ☕"


async def shop_and_jobs(driver: Driver, saw: Callable[[Happened], Awaitable[None]]) -> None:
    """Two pods, one update, a job that ends by itself, a start that fails, an untidy end.

    ``saw`` waits until an event was recorded: the runtime tells of a container's own end some
    time after it, and only then is the order of what follows certain.
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
    # The pod goes first, its containers are cleaned up behind it.
    await driver.stop_pod(web)
    await driver.remove(app)
    await driver.remove(job)
    await driver.remove_pod(web)
    await driver.remove_pod(batch)
