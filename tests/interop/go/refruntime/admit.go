// SPDX-License-Identifier: Apache-2.0

//go:build !nri_no_block

package main

// synchronizesLaunched says whether the adaptation begins with a Synchronize of launched plugins,
// were there any or not.
const synchronizesLaunched = true

// admitted waits until the adaptation sends events to the plugin that it just synchronized.
func (r *runtime) admitted(updates int) {
	block := r.adaptation.BlockPluginSync()
	defer block.Unblock()
	r.count(updates)
}
