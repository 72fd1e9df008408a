// Package stats sums up numbers.
package stats

import "errors"

// ErrEmpty is returned where there are no numbers.
var ErrEmpty = errors.New("no numbers")

// Mean is the average of the numbers.
func Mean(numbers []float64) (float64, error) {
	if len(numbers) == 0 {
		return 0, ErrEmpty
	}
	sum := 0.0
	for _, number := range numbers {
		sum += number
	}
	return sum / float64(len(numbers)), nil
}
