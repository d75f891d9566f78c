// Command predict reads inputs as JSON, such as {"x": [[1, 2], [3, 4]]}, and prints what the net
// gives for each example, a line each.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	exported "MODULE"
)

func main() {
	log.SetFlags(0)
	net, err := exported.Load()
	if err != nil {
		log.Fatal(err)
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	inputs, err := net.ParseInputs(text)
	if err != nil {
		log.Fatal(err)
	}
	out, err := net.Predict(inputs...)
	if err != nil {
		log.Fatal(err)
	}
	n, err := net.Check(inputs...)
	if err != nil {
		log.Fatal(err)
	}
	for i := range n {
		fmt.Println(out[i*len(out)/n : (i+1)*len(out)/n])
	}
}
