package fused_test

import (
	"fmt"

	"gaiden/lib/fused"
	"gaiden/lib/models"
)

// What a net's training step becomes on a GPU can be asked on any machine.
func ExampleNewPlan() {
	plan, err := fused.NewPlan(models.MLP(1000))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan)
	// Output:
	// flatten          flatten
	// l1               dense
	// l2               dense
	// l3               head
}
