//go:build !linux && !darwin

package main

import (
	"errors"
	"os"
	"time"
)

func peakOf(*os.ProcessState) float64 { return 0 }

func peakMemory() (float64, error) { return 0, errors.ErrUnsupported }

func processorTime() time.Duration { return 0 }
