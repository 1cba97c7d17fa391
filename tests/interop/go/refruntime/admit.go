// SPDX-License-Identifier: Apache-2.0

//go:build !nri_no_block

package main

// synchronizesLaunched is true if the adaptation begins with a Synchronize of launched plugins,
// even if there are none.
const synchronizesLaunched = true

// admitted waits until the adaptation sends events to the plugin that it just synchronized.
func (r *runtime) admitted(updates int) {
	block := r.adaptation.BlockPluginSync()
	defer block.Unblock()
	r.count(updates)
}
