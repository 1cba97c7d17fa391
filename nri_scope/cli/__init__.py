# SPDX-License-Identifier: Apache-2.0
"""Offer nri-scope on the command line: one thin module for each command.

In: arguments, and values of the rooms below. Out: lines on standard output, one line on standard
error for a problem, and an exit status. A module parses options, calls one room and prints; this
room never decides what a recording means, never reads SQL results itself, and `main` imports a
command only when it is asked for.
"""
