package units

import (
	"math"
	"testing"
)

func TestPrint(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		name string
		got  string
		want string
	}{
		{"ms", Seconds(0.00142), "1.42 ms"},
		{"trailing zeros", Seconds(0.0013), "1.30 ms"},
		{"ns", Seconds(57.3e-9), "57.3 ns"},
		{"less than a ns", Seconds(2e-10), "0.20 ns"},
		{"µs", Seconds(151.6e-6), "152 µs"},
		{"rounds up to the next prefix", Seconds(999.6e-6), "1.00 ms"},
		{"just below", Seconds(999.4e-6), "999 µs"},
		{"rounds up a digit", Seconds(9.996), "10.0 s"},
		{"s", Seconds(2.31), "2.31 s"},
		{"nearly a minute", Seconds(59.96), "1m00s"},
		{"a minute", Seconds(125), "2m05s"},
		{"an hour", Seconds(12000), "3h20m"},
		{"nearly an hour", Seconds(3599.6), "1h00m"},
		{"negative", Seconds(-125), "-2m05s"},
		{"negative ms", Seconds(-0.00142), "-1.42 ms"},
		{"no time", Seconds(0), "0 s"},
		{"a clock: ms", Clock(0.0314), "31.4 ms"},
		{"a clock: tenths", Clock(0.44), "0.4 s"},
		{"a clock: below ten", Clock(9.94), "9.9 s"},
		{"a clock: ten", Clock(9.96), "10 s"},
		{"a clock: nearly a minute", Clock(59.7), "1m00s"},
		{"a clock: below a minute", Clock(59.4), "59 s"},
		{"a clock: minutes", Clock(125), "2m05s"},
		{"a clock: hours", Clock(3900), "1h05m"},
		{"a clock: none", Clock(0), "0 s"},
		{"a clock: back", Clock(-12), "-12 s"},
		{"NaN", Seconds(nan), "NaN s"},
		{"for ever", Seconds(inf), "∞ s"},
		{"an age", Seconds(1e12), "1e+12 s"},
		{"MB", Bytes(188_160_000), "188 MB"},
		{"B", Bytes(12), "12 B"},
		{"no bytes", Bytes(0), "0 B"},
		{"half a byte", Bytes(0.5), "500 mB"},
		{"kB", Bytes(1536), "1.54 kB"},
		{"TB/s", ByteRate(4.8e12), "4.80 TB/s"},
		{"GFLOP", FLOPs(8.4e9), "8.40 GFLOP"},
		{"TFLOP/s", FLOPRate(3.1e12), "3.10 TFLOP/s"},
		{"beyond exa", FLOPRate(3.1e24), "3.1e+06 EFLOP/s"},
		{"%", Percent(0.936), "93.6 %"},
		{"whole", Percent(1), "100.0 %"},
		{"nothing", Percent(0), "0.0 %"},
		{"tiny", Percent(0.00012), "0.01 %"},
		{"NaN %", Percent(nan), "NaN %"},
		{"count", Count(61706), "61,706"},
		{"small count", Count(999), "999"},
		{"large count", Count(1234567), "1,234,567"},
		{"negative count", Count(-123456), "-123,456"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}
