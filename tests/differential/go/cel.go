package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

func init() {
	commands["cel"] = answerCEL
	commands["cel-bench"] = timeCEL
	commands["quantity"] = answerQuantity
}

type celCase struct {
	Name       string          `json:"name"`
	Expression string          `json:"expression"`
	Device     celDevice       `json:"device"`
	Features   dracel.Features `json:"features"`
	EnvType    string          `json:"envType"`
	Derived    bool            `json:"derived"`
}

type celDevice struct {
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
}

type celAnswer struct {
	Name          string `json:"name"`
	Match         *bool  `json:"match,omitempty"`
	Value         any    `json:"value,omitempty"`
	CompileError  string `json:"compileError,omitempty"`
	Error         string `json:"error,omitempty"`
	Cost          uint64 `json:"cost"`
	EstimatedCost uint64 `json:"estimatedCost"`
}

type compile func(string, dracel.Options) dracel.CompilationResult

// The package keeps one compiler; changing features on every line would build one each time.
var compilers = map[dracel.Features]compile{}

func compilerFor(features dracel.Features) compile {
	if compilers[features] == nil {
		compilers[features] = dracel.GetCompiler(features).CompileCELExpression
	}
	return compilers[features]
}

func answerCEL(line []byte) (result any) {
	var c celCase
	if err := json.Unmarshal(line, &c); err != nil {
		return celAnswer{Name: c.Name, Error: "unreadable: " + err.Error()}
	}
	answer := celAnswer{Name: c.Name}
	defer func() {
		if r := recover(); r != nil {
			answer.Error = fmt.Sprintf("panic: %v", r)
			result = answer
		}
	}()
	envType := environment.StoredExpressions
	if c.EnvType == string(environment.NewExpressions) {
		envType = environment.NewExpressions
	}
	compiled := compilerFor(c.Features)(c.Expression, dracel.Options{EnvType: &envType, DerivedAttribute: c.Derived})
	if compiled.Error != nil {
		answer.CompileError = compiled.Error.Detail
		return answer
	}
	answer.EstimatedCost = compiled.MaxCost
	device := dracel.Device{
		Driver:                   c.Device.Driver,
		AllowMultipleAllocations: c.Device.AllowMultipleAllocations,
		Attributes:               c.Device.Attributes,
		Capacity:                 c.Device.Capacity,
	}
	if c.Derived {
		value, _, err := compiled.EvaluateDerivedAttribute(context.Background(), device)
		if err != nil {
			answer.Error = strings.ToValidUTF8(err.Error(), "?")
		} else {
			answer.Value = value
		}
		return answer
	}
	match, details, err := compiled.DeviceMatches(context.Background(), device)
	if details != nil && details.ActualCost() != nil {
		answer.Cost = *details.ActualCost()
	}
	if err != nil {
		answer.Error = strings.ToValidUTF8(dracel.EnhanceRuntimeError(err).Error(), "?")
		return answer
	}
	answer.Match = &match
	return answer
}

type celTime struct {
	Expression       string  `json:"expression"`
	CompileMicros    float64 `json:"compileMicros"`
	EvaluationMicros float64 `json:"evaluationMicros"`
}

// timeCEL says how long one compilation, as the scheduler does it, and one evaluation take.
func timeCEL(line []byte) any {
	var c celCase
	if err := json.Unmarshal(line, &c); err != nil {
		return celTime{}
	}
	compile := compilerFor(c.Features)
	options := dracel.Options{DisableCostEstimation: true}
	device := dracel.Device{Driver: c.Device.Driver, Attributes: c.Device.Attributes, Capacity: c.Device.Capacity}
	compiled := compile(c.Expression, options)
	return celTime{
		Expression:    c.Expression,
		CompileMicros: micros(func() { compile(c.Expression, options) }),
		EvaluationMicros: micros(func() {
			_, _, _ = compiled.DeviceMatches(context.Background(), device)
		}),
	}
}

// micros runs something for a quarter of a second and gives the mean.
func micros(run func()) float64 {
	start, count := time.Now(), 0
	for time.Since(start) < 250*time.Millisecond {
		run()
		count++
	}
	return float64(time.Since(start).Microseconds()) / float64(count)
}

type quantityAnswer struct {
	Text    string  `json:"text"`
	Error   string  `json:"error,omitempty"`
	Printed string  `json:"printed,omitempty"`
	Format  string  `json:"format,omitempty"`
	Int64   *int64  `json:"int64"`
	Float   float64 `json:"float"`
}

// answerQuantity reads a JSON list of one text, or of three: left, "+" or "-", right.
func answerQuantity(line []byte) any {
	var texts []string
	if err := json.Unmarshal(line, &texts); err != nil {
		return quantityAnswer{Error: err.Error()}
	}
	answer := quantityAnswer{Text: strings.Join(texts, " ")}
	value, err := resource.ParseQuantity(texts[0])
	if err == nil && len(texts) == 3 {
		var other resource.Quantity
		if other, err = resource.ParseQuantity(texts[2]); err == nil {
			if texts[1] == "+" {
				value.Add(other)
			} else {
				value.Sub(other)
			}
		}
	}
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.Printed = value.String()
	answer.Format = string(value.Format)
	answer.Float = value.AsApproximateFloat64()
	if whole, ok := value.AsInt64(); ok {
		answer.Int64 = &whole
	}
	return answer
}
