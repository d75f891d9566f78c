package tabular

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

var people = &Encoder{Target: "survived", Classes: []string{"no", "yes"},
	Numbers:    []Normal{{Name: "age", Mean: 30, Deviation: 10}, {Name: "seen", Mean: 20000, Deviation: 2, Times: true}},
	Categories: []Category{{Name: "class", Values: []string{"1", "2", "3"}}, {Name: "home/port", Values: []string{"false", "true"}}}}

func TestInputs(t *testing.T) {
	rows := `[{"age": 40, "seen": "2024-10-04 12:00", "class": 3, "home/port": true, "name": "Jo"}, {"age": null, "seen": null, "class": null, "home/port": ""}]`
	var l []Row
	if err := json.Unmarshal([]byte(rows), &l); err != nil {
		t.Fatal(err)
	}
	hot := *people
	hot.OneHot = true
	for want, e := range map[string]*Encoder{
		"map[class:[3 0] home_port:[2 0] numbers:[1 0.25 0 0]]": people,
		"map[x:[1 0.25 0 0 1 0 1 0 0 0 0 0 0 0]]":               &hot,
	} {
		if got, err := e.Inputs(l); err != nil || fmt.Sprint(got) != want {
			t.Errorf("got %v, %v, want %s", got, err, want)
		}
	}
	good := func() Row {
		return Row{"age": 40, "seen": time.Unix(20000*86400, 0), "class": "3", "home/port": "true"}
	}
	if got, err := hot.Inputs([]Row{good()}); err != nil || fmt.Sprint(got) != "map[x:[1 0 0 0 1 0 1]]" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, c := range []struct {
		column string
		value  any
		want   string
	}{
		{"age", "40", `row 2: age is "40": want a number, such as 30, or nil (null in JSON) where it is not known`},
		{"age", true, "age is true: want a number"},
		{"age", []any{1.0}, "age is a list: want a number"},
		{"age", math.Inf(1), "age is +Inf: want a number of at most 3e38"},
		{"age", 1e300, "want a number of at most 3e38"},
		{"age", time.Unix(0, 0), "want a number"},
		{"seen", 3.5, "seen is 3.5: want a time, such as 2024-12-31"},
		{"seen", "yesterday", `seen is "yesterday": want a time`},
		{"class", "first", `row 2: class is "first": want one of "1", "2", "3", or nil (null in JSON) where it is not known`},
		{"class", 4, "class is 4: want one of"},
		{"class", Row{}, "class is an object: want one of"},
		{"age", nil, ""},
		{"age", (*int8)(nil), ""},
		{"age", json.Number("4x"), `age is "4x": want a number`},
		{"age", math.NaN(), ""},
		{"class", math.NaN(), ""},
	} {
		bad := good()
		bad[c.column] = c.value
		_, err := people.Inputs([]Row{good(), bad})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %v: got %v, want %q", c.column, c.value, err, c.want)
		}
	}
	type word string
	half := float32(40)
	for column, values := range map[string][]any{
		"age":       {int8(40), uint16(40), uint64(40), float32(40), json.Number("4e1"), &half},
		"class":     {word("3"), uint8(3), int64(3), json.Number("3"), json.Number("3.0"), float32(3)},
		"home/port": {word("true"), true},
	} {
		for _, v := range values {
			row := good()
			row[column] = v
			if got, err := hot.Inputs([]Row{row}); err != nil || fmt.Sprint(got) != "map[x:[1 0 0 0 1 0 1]]" {
				t.Errorf("%s %T %v: got %v, %v", column, v, v, got, err)
			}
		}
	}
	without := good()
	delete(without, "class")
	for want, l := range map[string][]Row{"row 1 has no class: want age, seen, class, home/port; nil (null in JSON) for": {without}, "got no rows": nil, "row 1 has no age": {nil}} {
		if _, err := people.Inputs(l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := (&Encoder{Classes: []string{"a", "b"}}).Inputs([]Row{good()}); err == nil || !strings.Contains(err.Error(), "was not trained on columns") {
		t.Errorf("got %v", err)
	}
	none := &Encoder{Categories: []Category{{Name: "t"}}}
	if _, err := none.Inputs([]Row{{"t": "q"}}); err == nil || !strings.Contains(err.Error(), `t is "q": want nothing, as in the training rows, or nil`) {
		t.Errorf("got %v", err)
	}
	many := Category{Name: "city"}
	for i := range 1000 {
		many.Values = append(many.Values, fmt.Sprint(1000+i))
	}
	if l := many.List(); !strings.HasSuffix(l, `"1011" … and 988 more that the training rows had`) {
		t.Errorf("got %s", l)
	}
}

// TestNumber holds that no two numbers are one category.
func TestNumber(t *testing.T) {
	for _, x := range []float64{1e15, 1e15 + 1, 1<<53 - 1, 1 << 53, 1<<53 + 2, 1.23456781e-5, 1.23456782e-5, 0.1, 1e300, -3} {
		if y, err := strconv.ParseFloat(Number(x), 64); y != x || err != nil {
			t.Errorf("%s: got %g, %v, want %g", Number(x), y, err, x)
		}
	}
	id := Category{Name: "id", Values: []string{"1000000000000001", "9007199254740993"}}
	e := &Encoder{Categories: []Category{id}}
	for v, want := range map[any]int32{1e15 + 1: 1, int64(9007199254740993): 2, 9007199254740993.0: 0, json.Number("9007199254740993"): 2, int64(9007199254740992): 0} {
		if got, err := e.Inputs([]Row{{"id": v}}); (err == nil) != (want > 0) || err == nil && got["id"].([]int32)[0] != want {
			t.Errorf("%T %v: got %v, %v, want %d", v, v, got, err, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	e := &Encoder{Classes: []string{"no", "yes"}, Scale: Normal{Mean: 100, Deviation: 10}}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		how  Reading
		out  []float32
		want string
	}{
		{Softmax, []float32{0, float32(math.Log(3))}, `{"class":"yes","probabilities":{"no":0.25,"yes":0.75}}`},
		{Softmax, []float32{1e30, -1e30}, `{"class":"no","probabilities":{"no":1,"yes":0}}`},
		{Softmax, []float32{0, 0, 1}, `{"class":null,"probabilities":{"no":0.21194,"yes":0.21194}}`}, // a class without a name
		{Softmax, []float32{0, nan}, `{"class":null}`},
		{Softmax, []float32{0, inf}, `{"class":"yes"}`},
		{Largest, []float32{0.5, 0.25}, `{"class":"no"}`},
		{Sigmoid, []float32{-float32(math.Log(3))}, `{"class":"no","probabilities":{"no":0.75,"yes":0.25}}`},
		{Sigmoid, []float32{2}, `{"class":"yes","probabilities":{"no":0.1192,"yes":0.8808}}`},
		{Scaled, []float32{-2.5}, `{"value":75}`},
		{Scaled, []float32{nan}, `{"value":null}`},
		{Scaled, []float32{inf}, `{"value":null}`},
	} {
		a := e.Answers(c.how, c.out, 1)
		for name, p := range a[0].Probabilities {
			a[0].Probabilities[name] = math.Round(p*1e5) / 1e5
		}
		if got, err := json.Marshal(a[0]); err != nil || string(got) != c.want {
			t.Errorf("%s %v: got %s, %v, want %s", c.how, c.out, got, err, c.want)
		}
	}
	if l := e.Answers(Largest, []float32{0, 1, 1, 0}, 2); l[0].Class != "yes" || l[1].Class != "no" || l[1].Output[0] != 1 {
		t.Errorf("got %+v", l)
	}
}
