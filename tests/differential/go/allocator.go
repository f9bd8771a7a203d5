package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

func init() {
	commands["allocator"] = answerAllocator
	commands["fill"] = answerFill
}

// allocatorProblem is the problem format of the conformance cases.
type allocatorProblem struct {
	Name      string                       `json:"name"`
	Features  []string                     `json:"features"`
	Node      *v1.Node                     `json:"node"`
	Nodes     []*v1.Node                   `json:"nodes"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Allocated struct {
		Devices  []string                                                   `json:"devices"`
		Shared   []string                                                   `json:"shared"`
		Capacity map[string]map[resourceapi.QualifiedName]resource.Quantity `json:"capacity"`
	} `json:"allocated"`
	// A search that takes longer is given up; some shapes take the in-tree allocator minutes.
	TimeoutMillis int `json:"timeoutMillis"`
}

type allocatorAnswer struct {
	Name    string                         `json:"name"`
	Node    string                         `json:"node,omitempty"`
	Results []resourceapi.AllocationResult `json:"results"`
	Error   string                         `json:"error,omitempty"`
	Timeout bool                           `json:"timeout,omitempty"`
	Panic   string                         `json:"panic,omitempty"`
}

type classLister map[string]*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range l {
		all = append(all, class)
	}
	return all, nil
}

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := l[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("device class %s not found", name)
}

var celCaches = map[dracel.Features]*dracel.Cache{}

func celCacheFor(features structured.Features) *dracel.Cache {
	key := dracel.Features{
		EnableConsumableCapacity: features.ConsumableCapacity,
		EnableListTypeAttributes: features.ListTypeAttributes,
	}
	if celCaches[key] == nil {
		celCaches[key] = dracel.NewCache(1000, key)
	}
	return celCaches[key]
}

func allocatorFeatures(names []string) (structured.Features, error) {
	var features structured.Features
	value := reflect.ValueOf(&features).Elem()
	for _, name := range names {
		field := value.FieldByName(name)
		if !field.IsValid() {
			return features, fmt.Errorf("unknown feature %s", name)
		}
		field.SetBool(true)
	}
	return features, nil
}

func deviceID(text string) structured.DeviceID {
	parts := strings.Split(text, "/")
	last := len(parts) - 1
	return structured.MakeDeviceID(parts[0], strings.Join(parts[1:last], "/"), parts[last])
}

func (p *allocatorProblem) state() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, device := range p.Allocated.Devices {
		state.AllocatedDevices.Insert(deviceID(device))
	}
	for _, shared := range p.Allocated.Shared {
		at := strings.LastIndex(shared, "/")
		id := types.UID(shared[at+1:])
		state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(deviceID(shared[:at]), &id))
	}
	for device, capacity := range p.Allocated.Capacity {
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(deviceID(device), capacity))
	}
	return state
}

func (p *allocatorProblem) read(line []byte) (structured.Features, error) {
	if err := json.Unmarshal(line, p); err != nil {
		return structured.Features{}, fmt.Errorf("unreadable: %w", err)
	}
	if p.Node != nil {
		p.Nodes = append(p.Nodes, p.Node)
	}
	return allocatorFeatures(p.Features)
}

func (p *allocatorProblem) lister() classLister {
	classes := classLister{}
	for _, class := range p.Classes {
		classes[class.Name] = class
	}
	return classes
}

func answerAllocator(line []byte) (result any) {
	var p allocatorProblem
	defer func() {
		if reason := recover(); reason != nil {
			result = allocatorAnswer{Name: p.Name, Panic: fmt.Sprint(reason)}
		}
	}()
	features, err := p.read(line)
	if err != nil {
		return allocatorAnswer{Name: p.Name, Error: err.Error()}
	}
	timeout := time.Duration(p.TimeoutMillis) * time.Millisecond
	if timeout == 0 {
		timeout = time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	allocator, err := structured.NewAllocator(ctx, features, p.state(), p.lister(), p.Slices, celCacheFor(features))
	if err != nil {
		return allocatorAnswer{Name: p.Name, Error: err.Error()}
	}
	var onNode error
	for _, node := range p.Nodes {
		results, err := allocator.Allocate(ctx, node, p.Claims)
		switch {
		case ctx.Err() != nil:
			return allocatorAnswer{Name: p.Name, Timeout: true}
		case errors.Is(err, structured.ErrFailedAllocationOnNode):
			onNode = err
		case err != nil:
			return allocatorAnswer{Name: p.Name, Error: err.Error()}
		case results != nil:
			return allocatorAnswer{Name: p.Name, Node: node.Name, Results: results}
		}
	}
	if onNode != nil {
		return allocatorAnswer{Name: p.Name, Error: onNode.Error()}
	}
	return allocatorAnswer{Name: p.Name}
}

type fillAnswer struct {
	Claims    int     `json:"claims"`
	Allocated int     `json:"allocated"`
	Seconds   float64 `json:"seconds"`
	Error     string  `json:"error,omitempty"`
}

// answerFill allocates the claims one after another, with a new allocator for each as the scheduler makes one. The search for a node
// goes on where the last claim was placed, so that full nodes are not tried again for every claim. Only the claims are timed.
func answerFill(line []byte) any {
	var p allocatorProblem
	features, err := p.read(line)
	if err != nil {
		return fillAnswer{Error: err.Error()}
	}
	ctx := context.Background()
	state, classes, cache := p.state(), p.lister(), celCacheFor(features)
	answer := fillAnswer{Claims: len(p.Claims)}
	next := 0
	begin := time.Now()
	for _, claim := range p.Claims {
		allocator, err := structured.NewAllocator(ctx, features, state, classes, p.Slices, cache)
		if err != nil {
			return fillAnswer{Error: err.Error()}
		}
		for tried := range p.Nodes {
			at := (next + tried) % len(p.Nodes)
			results, err := allocator.Allocate(ctx, p.Nodes[at], []*resourceapi.ResourceClaim{claim})
			if err != nil && !errors.Is(err, structured.ErrFailedAllocationOnNode) {
				return fillAnswer{Error: err.Error()}
			}
			if results == nil {
				continue
			}
			next = at
			answer.Allocated++
			for _, result := range results[0].Devices.Results {
				id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
				if result.ShareID == nil {
					state.AllocatedDevices.Insert(id)
					continue
				}
				state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
			break
		}
	}
	answer.Seconds = time.Since(begin).Seconds()
	return answer
}
