# SPDX-License-Identifier: Apache-2.0
"""Provide the widgets that views share.

In: what to draw. Out: the drawing, and messages about what the user asks for. They never know the
recording or the app.
"""
