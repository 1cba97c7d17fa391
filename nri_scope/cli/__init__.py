# SPDX-License-Identifier: Apache-2.0
"""Offer nri-scope on the command line: one thin module for each command.

In: command-line arguments, and results of the packages below. Out: lines on standard output, one
line on standard error for a problem, and an exit status. A module parses options, calls one package
and prints; this package never interprets recordings and never issues SQL itself. `main` imports a
command's module only when that command is used.
"""
