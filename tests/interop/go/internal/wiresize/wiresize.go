// SPDX-License-Identifier: Apache-2.0

// Package wiresize computes the size of a request on the runtime's socket in bytes.
package wiresize

import (
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// HeaderLength is the length of a ttRPC message header.
	HeaderLength = 10
	// frameHeaderLength is the length of a mux frame header.
	frameHeaderLength = 8
	// firstFrameMax: ttRPC writes through a buffer of this size, and the mux makes one frame of
	// each write; the rest follows in a second frame.
	firstFrameMax = 4096
)

// Message returns the length of a whole ttRPC request message: its header and its
// protobuf-encoded Request with service, method, payload and timeout (no metadata).
func Message(service, method string, payload int, timeoutNano int64) int {
	size := HeaderLength
	for _, length := range []int{len(service), len(method), payload} {
		if length > 0 {
			size += 1 + protowire.SizeBytes(length)
		}
	}
	if timeoutNano != 0 {
		size += 1 + protowire.SizeVarint(uint64(timeoutNano))
	}
	return size
}

// Of returns the length of a request's message.
func Of(request *ttrpc.Request) int {
	return Message(request.Service, request.Method, len(request.Payload), request.TimeoutNano)
}

// OnSocket returns the bytes that Go writes to the socket for a message of this length:
// the message and the headers of its one or two mux frames.
func OnSocket(message int) int {
	if message <= firstFrameMax {
		return message + frameHeaderLength
	}
	return message + 2*frameHeaderLength
}
