# SPDX-License-Identifier: Apache-2.0
"""NRI plugin that adds the devices in a pod's annotations to its containers.

The annotation ``devices.example.com/NAME`` of a pod lists devices for its container NAME, by their
names in the table below: ``fuse, tun``. The node's configuration limits the devices that pods may
request: an unknown or disallowed device fails the container.
"""

from __future__ import annotations

from nri_scope.errors import UsageError
from nri_scope.plugin import RuntimeHandle, api, run

PREFIX = "devices.example.com/"

DEVICES = {
    "fuse": ("/dev/fuse", 10, 229),
    "kvm": ("/dev/kvm", 10, 232),
    "tun": ("/dev/net/tun", 10, 200),
    "vhost-net": ("/dev/vhost-net", 10, 238),
}
"""Path, major and minor number; all are character devices."""

ALLOWED = frozenset({"fuse", "tun"})
"""Allowed devices without a configuration."""


class DeviceInjector:
    """Plugin that adds the devices in a pod's annotations to its containers."""

    def __init__(self) -> None:
        self.allowed = ALLOWED

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        """Replace the allowed devices if the runtime has a configuration for this plugin."""
        if config.strip():
            self.allowed = frozenset(names(config))
            if unknown := sorted(self.allowed - DEVICES.keys()):
                raise UsageError(f"the configuration allows unknown devices: {', '.join(unknown)}")

    def create_container(
        self, pod: api.PodSandbox, container: api.Container
    ) -> api.ContainerAdjustment | None:
        """Add the requested devices if all are allowed."""
        requested = names(pod.annotations.get(PREFIX + container.name, ""))
        if not requested:
            return None
        adjustment = api.ContainerAdjustment()
        for name in requested:
            if name not in self.allowed:
                raise UsageError(
                    f"{PREFIX}{container.name}: device {name!r} is not allowed",
                    "allowed are " + ", ".join(sorted(self.allowed)),
                )
            path, major, minor = DEVICES[name]
            mode = api.OptionalFileMode(value=0o666)
            adjustment.linux.devices.add(
                path=path, type="c", major=major, minor=minor, file_mode=mode
            )
        return adjustment


def names(text: str) -> list[str]:
    """Return the names in a list separated by commas or spaces."""
    return text.replace(",", " ").split()


def main() -> None:
    """Run the command."""
    run(DeviceInjector(), name="device-injector", index="20")


if __name__ == "__main__":
    main()
