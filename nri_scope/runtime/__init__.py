# SPDX-License-Identifier: Apache-2.0
"""The runtime's role: accept or launch plugins, configure, synchronize and ask them in turn."""

from .answer import Answer
from .launch import read_config
from .play import FASTEST, Pace, Played, Stored, play, split_setup
from .plugin import Plugin
from .profile import PROFILES, Profile, recorded_profile
from .server import Runtime
from .setup import ProfileSetUp, RecordedSetUp, SetUp, synchronize_parts

__all__ = [
    "FASTEST",
    "PROFILES",
    "Answer",
    "Pace",
    "Played",
    "Plugin",
    "Profile",
    "ProfileSetUp",
    "RecordedSetUp",
    "Runtime",
    "SetUp",
    "Stored",
    "play",
    "read_config",
    "recorded_profile",
    "split_setup",
    "synchronize_parts",
]
