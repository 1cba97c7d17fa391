# SPDX-License-Identifier: Apache-2.0
"""A small Python plugin that adjusts every container, used to time replays."""

from __future__ import annotations

from nri_scope.plugin import api, run


class Adjuster:
    """Plugin that makes three small adjustments to every container."""

    def create_container(
        self, pod: api.PodSandbox, container: api.Container
    ) -> api.ContainerAdjustment:
        """Add a variable and a mount, and set the CPU shares."""
        adjustment = api.ContainerAdjustment(env=[api.KeyValue(key="POD", value=pod.name)])
        adjustment.linux.resources.cpu.shares.value = 512
        adjustment.mounts.add(
            destination="/etc/adjusted",
            source="/etc/hostname",
            type="bind",
            options=["rbind", "ro"],
        )
        return adjustment


if __name__ == "__main__":
    run(Adjuster(), name="adjuster", index="10")
