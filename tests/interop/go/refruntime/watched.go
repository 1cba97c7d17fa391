// SPDX-License-Identifier: Apache-2.0

//go:build !nri_no_client_options

package main

import (
	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/ttrpc"
)

// watched intercepts the requests to plugins.
func (r *runtime) watched() []adaptation.Option {
	interceptor := ttrpc.WithUnaryClientInterceptor(r.wire.intercept)
	return []adaptation.Option{adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{interceptor}, nil)}
}
