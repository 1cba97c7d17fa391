# SPDX-License-Identifier: Apache-2.0
"""Provide the widgets shared by the views.

In: lines, facts and keys. Out: drawn strips, and messages for the user's requests. They never
read the recording except through the store, and never depend on the app.
"""
