// Command predict reads inputs as JSON and prints what the net gives for each example, a line each:
//
//	echo 'EXAMPLE' | go run ./cmd/predict
package main

import (
	"encoding/json"
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
	answers := net.Answers(out)
	for i := range n {
		if net.Program.Reading != "" {
			text, err := json.Marshal(answers[i])
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(string(text))
			continue
		}
		fmt.Println(out[i*len(out)/n : (i+1)*len(out)/n])
	}
}
