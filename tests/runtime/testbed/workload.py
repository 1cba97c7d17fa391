# SPDX-License-Identifier: Apache-2.0
"""A small workload with unusual but realistic events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests import sample_names as names
from tests.cri.driver import Resources

from .driver import Driver
from .happened import Happened

SECRET = "hunter2"
"""Looks like a secret, and must be found by redaction."""

DB_HOST = "ledger-db.acme.internal"
"""A host name that redaction must find."""

ENVIRONMENT = {"DB_HOST": DB_HOST, "DB_PASSWORD": SECRET, "FOO": "from-the-pod"}

NOTE = "Grüße aus der Küche – 你好 ☕"


async def checkout_and_report(driver: Driver, saw: Callable[[Happened], Awaitable[None]]) -> None:
    """Run two pods with an update, a job that exits, a failed start, and an unusual end.

    ``saw`` waits until an event was recorded: the runtime sends the end of a container that exits
    with a delay, and only then is the order of later events certain.
    """
    checkout = await driver.run_pod(names.NAMESPACE, names.CHECKOUT_POD, {"example.com/note": NOTE})
    nightly = await driver.run_pod(
        names.REPORT_NAMESPACE, names.REPORT_POD, {"example.com/owner": "night shift"}
    )

    api = await driver.create(checkout, names.API, env=ENVIRONMENT)
    await driver.start(api)
    proxy = await driver.run(checkout, names.PROXY)
    await driver.update(api, Resources(cpu_shares=512, memory_limit=64 << 20))

    report = await driver.create(nightly, names.REPORT, ("sh", "-c", "sleep 0.2; exit 3"))
    await saw(await driver.start_to_end(report))
    upload = await driver.create(nightly, names.UPLOAD, ("/no/such/binary",))
    await driver.fail_to_start(upload)

    await driver.stop(proxy)
    await driver.remove(proxy)
    # The pod is stopped first, its containers are removed afterwards.
    await driver.stop_pod(checkout)
    await driver.remove(api)
    await driver.remove(report)
    await driver.remove_pod(checkout)
    await driver.remove_pod(nightly)
