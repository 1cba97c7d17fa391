# SPDX-License-Identifier: Apache-2.0
"""Convert a container in an NRI message to a partial OCI runtime spec."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.specs.json_spec import Spec

from . import values
from .resources import resources
from .unknown_fields import keep_unknown, unknown_fields

_CACHED_LENGTH = 8 << 10
"""Maximum size in bytes of a container whose spec is cached."""


_State = Literal[
    "labels",
    "state",
    "pid",
    "created_at",
    "started_at",
    "finished_at",
    "exit_code",
    "status_reason",
    "status_message",
]
_STATE: tuple[_State, ...] = get_args(_State)
"""Fields that change without a request, and that plugins cannot set; a spec has none of them."""


def without_state(container: api.Container) -> bytes:
    """Return the serialized container without its state, and without empty hooks."""
    plain = api.Container()
    plain.CopyFrom(container)
    for name in _STATE:
        plain.ClearField(name)
    if not plain.hooks.ByteSize():
        # containerd sends them in CreateContainer, and not later.
        plain.ClearField("hooks")
    return plain.SerializeToString(deterministic=True)


def spec_of(
    container: api.Container, pod: api.PodSandbox | None = None, *, known: bytes | None = None
) -> Spec:
    """Return the parts of the container's OCI spec that NRI messages contain.

    Two keys are not OCI's. ``/cdiDevices`` has only names, as messages do not contain the effects
    of a CDI device. ``/nri`` has values that have no equivalent in a spec: the image, the type of
    the seccomp profile, the runtime handler of `pod`, and raw fields of a newer API.

    ``known``: the result of `without_state`, if it is at hand.
    """
    if pod is None and container.ByteSize() <= _CACHED_LENGTH:
        # Many events show one container, in different states.
        return _spec_of_bytes(without_state(container) if known is None else known)
    return _spec_of(container, pod)


@lru_cache(maxsize=64)
def _spec_of_bytes(content: bytes) -> Spec:
    return _spec_of(api.Container.FromString(content), None)


def _spec_of(container: api.Container, pod: api.PodSandbox | None) -> Spec:
    spec: Spec = {}
    process = _process(container)
    if process:
        spec["process"] = process
    if container.mounts:
        spec["mounts"] = [values.mount(mount) for mount in container.mounts]
    hooks: Spec = dict(values.hook_lists(container.hooks))
    if hooks:
        spec["hooks"] = hooks
    if container.annotations:
        spec["annotations"] = values.texts(container.annotations)
    linux = _linux(container.linux)
    if linux:
        spec["linux"] = linux
    if container.CDI_devices:
        spec["cdiDevices"] = [values.cdi_device(device) for device in container.CDI_devices]
    nri = _nri_values(container, pod)
    if nri:
        spec["nri"] = nri
    keep_unknown(spec, unknown_fields(container, "container"))
    return spec


def _process(container: api.Container) -> Spec:
    process: Spec = {}
    linux = container.linux
    if container.HasField("user"):
        process["user"] = values.user(container.user)
    if container.args:
        process["args"] = values.strings(container.args)
    if container.env:
        process["env"] = values.strings(container.env)
    if container.rlimits:
        process["rlimits"] = [values.rlimit(rlimit) for rlimit in container.rlimits]
    if linux.HasField("oom_score_adj"):
        process["oomScoreAdj"] = linux.oom_score_adj.value
    scheduler = values.scheduler(linux.scheduler)
    if scheduler is not None:
        process["scheduler"] = scheduler
    io_priority = values.io_priority(linux.io_priority)
    if io_priority is not None:
        process["ioPriority"] = io_priority
    return process


def _linux(message: api.LinuxContainer) -> Spec:
    linux: Spec = {}
    if message.sysctl:
        linux["sysctl"] = values.texts(message.sysctl)
    limits = resources(message.resources)
    if limits:
        linux["resources"] = limits
    if message.cgroups_path:
        linux["cgroupsPath"] = message.cgroups_path
    if message.namespaces:
        linux["namespaces"] = [values.namespace(each) for each in message.namespaces]
    if message.devices:
        linux["devices"] = [values.device(each) for each in message.devices]
    if message.net_devices:
        linux["netDevices"] = {
            name: values.net_device(message.net_devices[name])
            for name in sorted(message.net_devices)
        }
    if message.HasField("seccomp_policy"):
        linux["seccomp"] = values.seccomp(message.seccomp_policy)
    rdt: Spec = {}
    if message.resources.rdt_class.value:
        rdt["closID"] = message.resources.rdt_class.value
    rdt.update(values.rdt(message.rdt))
    if rdt:
        linux["intelRdt"] = rdt
    return linux


def _nri_values(container: api.Container, pod: api.PodSandbox | None) -> Spec:
    nri: Spec = {}
    if container.HasField("image"):
        nri["image"] = {
            "name": container.image.name,
            "digest": container.image.digest,
            "configDigest": container.image.config_digest,
        }
    if container.linux.HasField("seccomp_profile"):
        nri["seccompProfile"] = values.security_profile(container.linux.seccomp_profile)
    if pod is not None and pod.runtime_handler:
        nri["runtimeHandler"] = pod.runtime_handler
    return nri
