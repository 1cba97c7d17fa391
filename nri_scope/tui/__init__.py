# SPDX-License-Identifier: Apache-2.0
"""The terminal user interface."""
