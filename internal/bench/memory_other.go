//go:build !linux && !darwin

package main

import (
	"errors"
	"os"
)

func peakOf(*os.ProcessState) float64 { return 0 }

func peakMemory() (float64, error) { return 0, errors.ErrUnsupported }
