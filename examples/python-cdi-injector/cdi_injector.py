# SPDX-License-Identifier: Apache-2.0
"""NRI plugin that requests CDI devices for containers, by the annotations of their pods.

The annotation ``cdi-devices.noderesource.dev/container.NAME`` lists devices for the container NAME,
as YAML; ``cdi-devices.noderesource.dev/pod``, or the key without a suffix, for all other containers
of the pod. The runtime injects the devices as their CDI specs on the node describe.

The configuration of the node limits the devices that pods may request: patterns of shells, one a
line, such as ``example.com/gpu=*``. Without a configuration, all devices are allowed.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import yaml
from nri_scope.errors import UsageError
from nri_scope.plugin import RuntimeHandle, api, run

KEY = "cdi-devices.noderesource.dev"


class CdiInjector:
    """Plugin that requests CDI devices for containers, by the annotations of their pods."""

    def __init__(self) -> None:
        self.allowed = ["*"]

    def configure(self, config: str, runtime: RuntimeHandle) -> None:
        """Set the patterns of allowed devices if there is a configuration."""
        lines = (line.partition("#")[0].strip() for line in config.splitlines())
        self.allowed = [line for line in lines if line] or ["*"]

    def create_container(
        self, pod: api.PodSandbox, container: api.Container
    ) -> api.ContainerAdjustment | None:
        """Request the container's devices; fail the container for an invalid or disallowed one."""
        keys = (f"{KEY}/container.{container.name}", f"{KEY}/pod", KEY)
        key = next((one for one in keys if one in pod.annotations), "")
        text = pod.annotations.get(key, "")
        if not text.strip():
            return None
        adjustment = api.ContainerAdjustment()
        for name in device_names(key, text):
            if not any(fnmatchcase(name, pattern) for pattern in self.allowed):
                raise UsageError(f"{key}: device {name!r} is not allowed on this node")
            adjustment.CDI_devices.add(name=name)
        return adjustment


def device_names(key: str, text: str) -> list[str]:
    """Return the names of an annotation."""
    try:
        names = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{key}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"{key}: {text!r} is not a list of device names", "write - VENDOR/CLASS=NAME"
        )
    return names


def main() -> None:
    """Run the command."""
    run(CdiInjector(), name="cdi-injector", index="20")


if __name__ == "__main__":
    main()
