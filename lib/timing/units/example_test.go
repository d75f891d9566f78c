package units_test

import (
	"fmt"

	"gaiden/lib/timing/units"
)

func Example() {
	fmt.Println(units.Seconds(0.00142))
	fmt.Println(units.FLOPRate(3.1e12))
	fmt.Println(units.Bytes(188_160_000))
	fmt.Println(units.Count(60_000))
	fmt.Println(units.Percent(0.986))
	// Output:
	// 1.42 ms
	// 3.10 TFLOP/s
	// 188 MB
	// 60,000
	// 98.6 %
}
