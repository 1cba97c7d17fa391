# SPDX-License-Identifier: Apache-2.0
"""Testbed with a real containerd, NRI and real containers on a plain Debian machine."""
