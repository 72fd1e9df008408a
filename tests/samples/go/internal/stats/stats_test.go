package stats

import "testing"

func TestMean(t *testing.T) {
	mean, err := Mean([]float64{1, 2, 6})
	if err != nil || mean != 3 {
		t.Fatalf("mean is %v, %v", mean, err)
	}
}

func TestNoNumbers(t *testing.T) {
	if _, err := Mean(nil); err != ErrEmpty {
		t.Fatalf("error is %v", err)
	}
}
