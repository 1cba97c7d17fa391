// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path"

	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

// script contains serialised replies, by method and container id.
type script map[string]map[string][]byte

func (s *script) open(name string) error {
	if name == "" {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, s)
}

// reply to a request; nil if the script has none.
func (s script) reply(method string, request any) proto.Message {
	about, ok := request.(interface{ GetContainer() *api.Container })
	if !ok {
		return nil
	}
	payload, ok := s[path.Base(method)][about.GetContainer().GetId()]
	if !ok {
		return nil
	}
	var reply proto.Message
	switch path.Base(method) {
	case "CreateContainer":
		reply = &api.CreateContainerResponse{}
	case "UpdateContainer":
		reply = &api.UpdateContainerResponse{}
	case "StopContainer":
		reply = &api.StopContainerResponse{}
	default:
		return nil
	}
	if err := proto.Unmarshal(payload, reply); err != nil {
		fail(err)
	}
	return reply
}
