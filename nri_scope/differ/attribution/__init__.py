# SPDX-License-Identifier: Apache-2.0
"""Attribute changes to plugins, round by round, from the evidence of all connections.

In: events in order, each as seen by one connection. Out: rounds with their steps, whose owners are
only as precise as the evidence, and the histories of containers. This package never reads files
and never prints.
"""
