package widget

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestPlain(t *testing.T) {
	tests := []struct {
		json string
		want any // nil = it is refused
	}{
		{`1`, 1.0}, {`-0.5`, -0.5}, {`"é"`, "é"}, {`""`, ""}, {`true`, true}, {`false`, false},
		{`[]`, []float64{}}, {`[1, 2]`, []float64{1, 2}}, {`["a"]`, []string{"a"}},
		{`{}`, map[string]float64{}}, {`{"a": 1}`, map[string]float64{"a": 1}}, {`{"a": "b"}`, map[string]string{"a": "b"}},
		{`null`, nil}, {`[1, "a"]`, nil}, {`[null]`, nil}, {`[[1]]`, nil}, {`{"a": 1, "b": "c"}`, nil}, {`{"a": {}}`, nil},
	}
	for _, tt := range tests {
		var value any
		if err := json.Unmarshal([]byte(tt.json), &value); err != nil {
			t.Fatal(err)
		}
		got, err := plain(value)
		if !reflect.DeepEqual(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("%s: got %#v, %v; want %#v", tt.json, got, err, tt.want)
		}
	}
}
