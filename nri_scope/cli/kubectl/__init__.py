# SPDX-License-Identifier: Apache-2.0
"""The commands of ``kubectl nri-scope``, one thin module each.

In: a command line, and the answers of agents through `cluster`. Out: what the commands of
nri-scope print about a copy of a node's recordings. This package never contains more than options
and layout.
"""
