# SPDX-License-Identifier: Apache-2.0
"""Emulate a runtime: accept or launch plugins, configure and synchronize them, and send events.

In: requests to send, a profile of a runtime, and plugins' replies. Out: outcomes of operations,
merged as that runtime merges replies, and plugins' output. This room never reads recordings, and
never starts a container.
"""

from .answer import Answer as Answer
from .answer import Rejection as Rejection
from .answer import SetupStage as SetupStage
from .external_plugin import ExternalPlugin as ExternalPlugin
from .external_plugin import registers_itself as registers_itself
from .lifecycle import LifecycleState as LifecycleState
from .lifecycle import LifecycleStep as LifecycleStep
from .operations import OperationResult as OperationResult
from .output import Stream as Stream
from .plugin import NO_DEADLINE_MS as NO_DEADLINE_MS
from .plugin import Plugin as Plugin
from .plugin import PluginExchange as PluginExchange
from .plugin_process import GRACE_S as GRACE_S
from .plugin_process import Process as Process
from .plugin_setup import ProfileSetUp as ProfileSetUp
from .plugin_setup import synchronize_parts as synchronize_parts
from .profile import PROFILES as PROFILES
from .profile import RECORDED as RECORDED
from .profile import Profile as Profile
from .profile import nearest_profile as nearest_profile
from .profile import profile_named as profile_named
from .profile import recorded_profile as recorded_profile
from .server import EmulatedRuntime as EmulatedRuntime
