# SPDX-License-Identifier: Apache-2.0
"""Provide the widgets that views share.

In: what to draw. Out: the drawing, and messages about requests of the user. They do not depend on
the recording or the app.
"""
