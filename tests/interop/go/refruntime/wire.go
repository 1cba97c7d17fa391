// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"path"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"

	"nri-scope/interop/internal/jsonlines"
	"nri-scope/interop/internal/wiresize"
)

// wire intercepts every request to every plugin before ttRPC sends it.
type wire struct {
	requests atomic.Int64
	bytes    atomic.Int64 // written to sockets: mux frame headers, ttRPC headers and requests; no replies
	failures atomic.Int64
	sent     *jsonlines.Writer
}

// sentRequest is a line of the file named by -sent.
type sentRequest struct {
	Method  string `json:"method"`
	Request string `json:"request_b64"` // the payload as sent
	Reply   string `json:"reply_b64"`
	Status  int32  `json:"status"` // ttRPC status code of the reply
	Error   string `json:"error"`  // error if there is no reply
	Timeout int64  `json:"timeout_ns"`
	At      int64  `json:"at_ns"` // wall clock
	Took    int64  `json:"took_ns"`
	Message int    `json:"message_bytes"` // the whole ttRPC message, header included
}

func (w *wire) intercept(ctx context.Context, request *ttrpc.Request, reply *ttrpc.Response, _ *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	start := time.Now()
	err := invoke(ctx, request, reply)
	took := time.Since(start)
	length := wiresize.Of(request)
	w.requests.Add(1)
	if tooLong := (*ttrpc.OversizedMessageErr)(nil); !errors.As(err, &tooLong) {
		w.bytes.Add(int64(wiresize.OnSocket(length)))
	}
	if err != nil || reply.GetStatus().GetCode() != 0 {
		w.failures.Add(1)
	}
	if w.sent == nil {
		return err
	}
	line := sentRequest{
		Method:  path.Base(request.Method),
		Request: base64.StdEncoding.EncodeToString(request.Payload),
		Reply:   base64.StdEncoding.EncodeToString(reply.Payload),
		Status:  reply.GetStatus().GetCode(),
		Timeout: request.TimeoutNano, At: start.UnixNano(), Took: took.Nanoseconds(), Message: length,
	}
	if err != nil {
		line.Error = err.Error()
	}
	w.sent.Write(line)
	return err
}
