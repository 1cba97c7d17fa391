# SPDX-License-Identifier: Apache-2.0
"""Attribute changes to plugins, round by round, by the evidence of all connections.

In: events in order, each as one connection saw it. Out: rounds, with steps that name an owner only
as exactly as the evidence allows, and the histories of containers. This package never reads files
and never prints.
"""
