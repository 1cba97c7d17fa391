# SPDX-License-Identifier: Apache-2.0
"""The widgets that views share: they draw what they are given, and tell what is asked for."""
