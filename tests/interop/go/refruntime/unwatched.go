// SPDX-License-Identifier: Apache-2.0

//go:build nri_no_client_options

package main

import "github.com/containerd/nri/pkg/adaptation"

// watched is nothing here: NRI 0.3 lets nobody see what is sent to plugins. Requests are not
// counted then.
func (r *runtime) watched() []adaptation.Option {
	return nil
}
