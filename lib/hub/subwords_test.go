package hub

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestSubwords holds tokenizers of the shapes that models have to those of Hugging Face, on hard
// texts.
func TestSubwords(t *testing.T) {
	var all []struct {
		Name      string
		Tokenizer json.RawMessage
		Cases     []struct {
			Text, Back string
			IDs        []int32
		}
	}
	b, err := os.ReadFile("testdata/subwords.json")
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range all {
		t.Run(tt.Name, func(t *testing.T) {
			tokenizer, err := parseTokenizer(tt.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range tt.Cases {
				got, err := tokenizer.Encode(c.Text)
				if err != nil || !slices.Equal(got, c.IDs) {
					t.Errorf("%q: got %v, %v\nwant %v", c.Text, got, err, c.IDs)
				}
				if back := tokenizer.Decode(c.IDs); back != c.Back {
					t.Errorf("%q: %v is %q, want %q", c.Text, c.IDs, back, c.Back)
				}
			}
		})
	}
}
