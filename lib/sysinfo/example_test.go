package sysinfo_test

import (
	"fmt"
	"runtime"

	"gaiden/lib/sysinfo"
)

// Read says what a program runs on; its String is a paragraph.
func ExampleReadVersions() {
	v := sysinfo.ReadVersions()
	fmt.Println(v.Go == runtime.Version())
	// Output:
	// true
}
