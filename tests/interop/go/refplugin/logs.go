// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"nri-scope/interop/internal/jsonlines"
)

// eventLog writes events as YAML, one log entry per line, like the logger plugin in upstream's
// samples, the usual tool for watching events.
type eventLog struct {
	logger *logrus.Logger
	file   *os.File
}

func (l *eventLog) open(name string) error {
	if name == "" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	l.file, l.logger = file, logrus.New()
	l.logger.SetOutput(file)
	l.logger.SetFormatter(&logrus.TextFormatter{PadLevelText: true})
	return nil
}

// write an event: pairs of a name and an object.
func (l *eventLog) write(event string, parts ...any) {
	if l.logger == nil {
		return
	}
	for i := 0; i+1 < len(parts); i += 2 {
		text, err := yaml.Marshal(parts[i+1])
		if err != nil {
			fail(err)
		}
		l.logger.Infof("%s: %s:", event, parts[i])
		for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			l.logger.Infof("%s:    %s", event, line)
		}
	}
}

func (l *eventLog) close() {
	if l.file != nil {
		l.file.Close()
	}
}

// requestLog writes received requests and their replies, for comparison with the sent ones.
// Messages are serialised again, with sorted maps.
type requestLog struct {
	lock  sync.Mutex
	lines *jsonlines.Writer
}

func (l *requestLog) open(name string) (err error) {
	if name != "" {
		l.lines, err = jsonlines.Create(name)
	}
	return err
}

func (l *requestLog) enabled() bool {
	return l.lines != nil
}

// Pod and container are ids, in requests about them; the time is that of the reply.
func (l *requestLog) write(method string, request, reply any) {
	if !l.enabled() {
		return
	}
	line := map[string]any{
		"method": path.Base(method), "request_b64": encode(request), "reply_b64": encode(reply),
		"event": eventOf(method, request), "at_ns": time.Now().UnixNano(),
	}
	if about, ok := request.(interface{ GetPod() *api.PodSandbox }); ok {
		line["pod"] = about.GetPod().GetId()
	}
	if about, ok := request.(interface{ GetContainer() *api.Container }); ok {
		line["container"] = about.GetContainer().GetId()
	}
	l.lines.Write(line)
	// Flush: a launched plugin is ended by SIGKILL.
	if err := l.lines.Flush(); err != nil {
		fail(err)
	}
}

func (l *requestLog) close() {
	if l.enabled() {
		l.lines.Close()
	}
}

func encode(message any) string {
	protobuf, ok := message.(proto.Message)
	if !ok {
		return ""
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(protobuf)
	if err != nil {
		fail(err)
	}
	return base64.StdEncoding.EncodeToString(bytes)
}

// eventOf returns the name of a request's event.
func eventOf(method string, request any) string {
	if change, ok := request.(*api.StateChangeEvent); ok {
		name := ""
		for _, word := range strings.Split(change.GetEvent().String(), "_") {
			name += word[:1] + strings.ToLower(word[1:])
		}
		return name
	}
	return path.Base(method)
}
