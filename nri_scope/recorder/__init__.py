# SPDX-License-Identifier: Apache-2.0
"""The recording: writing it, reading it, filtering it."""
