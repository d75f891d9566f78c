package data

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Words is a vocabulary of words, in small letters: token 0 fills rows, 1 is any other word,
// and 2 is Words[0]. It is exported whole, so that json.Marshal saves it.
type Words struct{ Words []string }

// WordsOf is the words that occur most often in texts, so many of them at most.
func WordsOf(texts []string, most int) *Words {
	counts := map[string]int{}
	for _, text := range texts {
		for _, w := range wordsIn(text) {
			counts[w]++
		}
	}
	l := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	return &Words{l[:max(0, min(most, len(l)))]}
}

// wordsIn are the runs of letters and digits of a text.
func wordsIn(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

// Vocab is how many tokens there are.
func (w *Words) Vocab() int { return len(w.Words) + 2 }

// Encode is a text as tokens.
func (w *Words) Encode(text string) []int32 { return w.rows([]string{text}, -1) }

// Rows are texts as tokens [n length] for models.Embedding: longer ones are cut, and 0 follows
// shorter ones, which its MaskZero leaves out.
func (w *Words) Rows(texts []string, length int) Array {
	return Array{[]int{len(texts), length}, w.rows(texts, length)}
}

func (w *Words) rows(texts []string, length int) (l []int32) {
	index := make(map[string]int32, len(w.Words))
	for i, word := range w.Words {
		index[word] = int32(i + 2)
	}
	for _, text := range texts {
		words := wordsIn(text)
		if length >= 0 {
			words = words[:min(len(words), length)]
		}
		for _, word := range words {
			l = append(l, max(index[word], 1))
		}
		l = append(l, make([]int32, max(0, length-len(words)))...)
	}
	return l
}

// Texts reads a folder with a folder of text files, in UTF-8, for each class.
type Texts struct {
	Classes []string // by label, such as those of the training texts; default: the folders, in alphabetical order
}

// TextSet is what Texts has read, ordered by class and file.
type TextSet struct {
	Texts   []string
	Labels  []int32
	Classes []string // by label
	Files   []string
}

// String describes the set.
func (s *TextSet) String() string {
	return fmt.Sprintf("%d texts, %d classes: %s", len(s.Texts), len(s.Classes), strings.Join(s.Classes, ", "))
}

// Names are the classes of labels, such as a prediction's.
func (s *TextSet) Names(labels []int32) []string { return namesOf(s.Classes, labels) }

// Read reads the folder.
func (o Texts) Read(dir string) (*TextSet, error) {
	f, err := readFolder(dir, "text files", o.Classes)
	if err != nil {
		return nil, err
	}
	s := &TextSet{make([]string, len(f.files)), f.labels, f.classes, f.files}
	return s, f.all(func(i int) error {
		b, err := os.ReadFile(f.files[i])
		if err == nil {
			for line, text := range strings.Split(string(b), "\n") {
				if !utf8.ValidString(text) {
					return fmt.Errorf("%s:%d: %w", f.files[i], line+1, notUTF8(text))
				}
			}
		}
		s.Texts[i] = string(b)
		return err
	})
}
