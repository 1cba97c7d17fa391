# SPDX-License-Identifier: Apache-2.0
"""A small Python plugin that adjusts every container, used to time replays."""

from __future__ import annotations

from nri_scope.plugin import Adjustment, Container, PodSandbox, run


class Adjuster:
    """Plugin that makes three small adjustments to every container."""

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment:
        """Add a variable and a mount, and set the CPU shares."""
        adjustment = Adjustment().add_env("POD", pod.name).set_cpu(shares=512)
        return adjustment.add_mount("/etc/adjusted", "/etc/hostname", options=["ro"])


if __name__ == "__main__":
    run(Adjuster(), name="adjuster", index="10")
