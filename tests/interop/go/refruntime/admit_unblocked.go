// SPDX-License-Identifier: Apache-2.0

//go:build nri_no_block

package main

const synchronizesLaunched = false

// admitted is early: up to NRI 0.6 nobody can wait until the adaptation sends events to the plugin
// that it just synchronized. Whoever needs that has to count the requests of an event.
func (r *runtime) admitted(updates int) {
	r.count(updates)
}
