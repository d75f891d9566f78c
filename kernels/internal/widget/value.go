package widget

import (
	"errors"
	"fmt"
)

// plain makes of a page's value (JSON) what package gob can carry to a GoNB
// program: numbers, text, truth values, and lists and objects of numbers or of
// text.
func plain(value any) (any, error) {
	switch v := value.(type) {
	case float64, string, bool:
		return v, nil
	case []any:
		numbers, texts := []float64{}, []string{}
		for _, e := range v {
			switch e := e.(type) {
			case float64:
				numbers = append(numbers, e)
			case string:
				texts = append(texts, e)
			}
		}
		if len(texts) == len(v) && len(v) > 0 {
			return texts, nil
		}
		if len(numbers) == len(v) {
			return numbers, nil
		}
		return nil, errors.New("got a list of several kinds, want numbers or text")
	case map[string]any:
		numbers, texts := map[string]float64{}, map[string]string{}
		for name, e := range v {
			switch e := e.(type) {
			case float64:
				numbers[name] = e
			case string:
				texts[name] = e
			}
		}
		if len(texts) == len(v) && len(v) > 0 {
			return texts, nil
		}
		if len(numbers) == len(v) {
			return numbers, nil
		}
		return nil, errors.New("got an object of several kinds, want numbers or text")
	}
	return nil, fmt.Errorf("got %v, want a number, text, or a list or object of them", value)
}
