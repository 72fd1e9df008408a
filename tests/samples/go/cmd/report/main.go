package main

import (
	"fmt"
	"os"
	"strconv"

	"sample.test/report/internal/stats"
)

func main() {
	var numbers []float64
	for _, word := range os.Args[1:] {
		number, err := strconv.ParseFloat(word, 64)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		numbers = append(numbers, number)
	}
	mean, err := stats.Mean(numbers)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%.2f\n", mean)
}
