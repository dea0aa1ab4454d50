package telemetry_test

import (
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/assent-dev/assent/telemetry"
)

// A team's own providers, with its own exporters, and one interceptor on the client of its workers.
func Example() {
	tracers := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(telemetry.IDs{}))
	meters := sdkmetric.NewMeterProvider()
	t, err := telemetry.New(telemetry.Config{Tracers: tracers, Meters: meters})
	if err != nil {
		fmt.Println(err)
		return
	}
	options := client.Options{Interceptors: []interceptor.ClientInterceptor{t}}
	fmt.Println(len(options.Interceptors))

	_, err = telemetry.New(telemetry.Config{Tracers: sdktrace.NewTracerProvider()})
	fmt.Println(err)
	// Output:
	// 1
	// telemetry.Tracers: does not give spans the ids of their runs; make the provider with sdktrace.WithIDGenerator(telemetry.IDs{})
}
