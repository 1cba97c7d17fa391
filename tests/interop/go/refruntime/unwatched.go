// SPDX-License-Identifier: Apache-2.0

//go:build nri_no_client_options

package main

import "github.com/containerd/nri/pkg/adaptation"

// watched is a no-op: with NRI 0.3, requests to plugins cannot be intercepted, so they are not
// counted.
func (r *runtime) watched() []adaptation.Option {
	return nil
}
