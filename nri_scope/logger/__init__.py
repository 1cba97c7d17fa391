# SPDX-License-Identifier: Apache-2.0
"""The passive plugin: subscribe to everything, answer at once, hand over to the recorder."""

from .logger import Logger, SessionReport
from .service import LoggerService

__all__ = ["Logger", "LoggerService", "SessionReport"]
