# SPDX-License-Identifier: Apache-2.0
"""An NRI plugin that gives containers the devices that their pod's annotations ask for.

A pod asks for its container NAME with the annotation ``devices.example.com/NAME``, in which it
lists devices by the names of the table below: ``fuse, tun``. What a pod may ask for is the node's
to say, not the pod's: a device that is unknown or not allowed fails the container.
"""

from __future__ import annotations

from nri_scope.errors import UsageError
from nri_scope.plugin import Adjustment, BasePlugin, Container, PodSandbox, RuntimeHandle, run

PREFIX = "devices.example.com/"

DEVICES = {
    "fuse": ("/dev/fuse", 10, 229),
    "kvm": ("/dev/kvm", 10, 232),
    "tun": ("/dev/net/tun", 10, 200),
    "vhost-net": ("/dev/vhost-net", 10, 238),
}
"""Path, major and minor number; all are character devices."""

ALLOWED = frozenset({"fuse", "tun"})
"""What is allowed unless the plugin's configuration lists something else."""


class DeviceInjector(BasePlugin):
    """Gives containers the devices that their pod's annotations ask for."""

    def __init__(self) -> None:
        self.allowed = ALLOWED

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        """Take the names of the allowed devices, where the runtime has a configuration for us."""
        if config.strip():
            self.allowed = frozenset(names(config))
            if unknown := sorted(self.allowed - DEVICES.keys()):
                raise UsageError(f"the configuration allows unknown devices: {', '.join(unknown)}")

    def create_container(self, pod: PodSandbox, container: Container) -> Adjustment | None:
        """Inject what was asked for, if it all is allowed."""
        wanted = names(pod.annotations.get(PREFIX + container.name, ""))
        if not wanted:
            return None
        adjustment = Adjustment()
        for name in wanted:
            if name not in self.allowed:
                raise UsageError(
                    f"{PREFIX}{container.name}: device {name!r} is not allowed",
                    "allowed are " + ", ".join(sorted(self.allowed)),
                )
            path, major, minor = DEVICES[name]
            adjustment.add_device(path, type="c", major=major, minor=minor, file_mode=0o666)
        return adjustment


def names(text: str) -> list[str]:
    """Return the names in a list with commas or blanks between them."""
    return text.replace(",", " ").split()


def main() -> None:
    """Run the command."""
    run(DeviceInjector(), name="device-injector", index="20")


if __name__ == "__main__":
    main()
