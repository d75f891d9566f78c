package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"gaiden/lib/data"
)

// Tokenizer is a tokenizer.json: byte-level or character-level BPE, Unigram or WordPiece, with what
// stands around them. Goroutines may share it.
type Tokenizer struct {
	model     subwords
	ids       map[string]int32
	tokens    []string // by id; "": there is none
	added     finder
	later     finder // tokens that are found when the text is normalized
	special   map[int32]bool
	normalize []func(string) string
	split     []func(pieces []string, first bool) []string
	before    []int32 // what Encode adds
	after     []int32
	decode    []func([]string) []string
	padding   int32
}

// subwords makes ids of a piece of text.
type subwords interface {
	encode(piece string, to []int32) ([]int32, error)
}

// section is a part of a tokenizer.json, of some type.
type section struct {
	Type          string
	Normalizers   []section
	Pretokenizers []section
	Processors    []section
	Decoders      []section
	fields
}

// fields are those of all types.
type fields struct {
	AddPrefixSpace   *bool `json:"add_prefix_space"`
	UseRegex         *bool `json:"use_regex"`
	Pattern          pattern
	Behavior         string
	Invert           bool
	IndividualDigits bool   `json:"individual_digits"`
	Replacement      string // of Metaspace
	PrependScheme    string `json:"prepend_scheme"`
	Split            *bool
	Content          string
	Charsmap         string `json:"precompiled_charsmap"`
	Prepend          string
	StripLeft        bool  `json:"strip_left"`
	StripRight       bool  `json:"strip_right"`
	CleanText        *bool `json:"clean_text"`
	HandleChinese    *bool `json:"handle_chinese_chars"`
	StripAccents     *bool `json:"strip_accents"`
	Lowercase        *bool
	Start, Stop      int
	Prefix, Suffix   string
	Cleanup          *bool
	Single           []struct {
		SpecialToken *struct{ ID string }
		Sequence     *struct{ ID string }
	}
	SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
	Cls, Sep      []any
}

type pattern struct{ Regex, String string }

// OpenTokenizer reads a tokenizer.json.
func OpenTokenizer(path string) (*Tokenizer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := parseTokenizer(b)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return t, nil
}

func parseTokenizer(b []byte) (*Tokenizer, error) {
	var file struct {
		AddedTokens   []addedToken `json:"added_tokens"`
		Normalizer    *section
		PreTokenizer  *section `json:"pre_tokenizer"`
		PostProcessor *section `json:"post_processor"`
		Decoder       *section
		Model         json.RawMessage
		Padding       *struct {
			PadID int32 `json:"pad_id"`
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, err
	}
	t := &Tokenizer{special: map[int32]bool{}}
	var err error
	if t.model, t.ids, err = openModel(file.Model); err != nil {
		return nil, err
	}
	for _, a := range file.AddedTokens {
		t.ids[a.Content] = a.ID
		t.special[a.ID] = a.Special
	}
	for token, id := range t.ids {
		if id < 0 || id > 1<<24 {
			return nil, fmt.Errorf("token %q has the id %d: want 0 to 2²⁴", token, id)
		}
		for int(id) >= len(t.tokens) {
			t.tokens = append(t.tokens, "")
		}
		t.tokens[id] = token
	}
	for _, part := range []struct {
		name string
		of   *section
		add  func(section) error
	}{{"normalizer", file.Normalizer, t.addNormalizer}, {"pre_tokenizer", file.PreTokenizer, t.addPreTokenizer}, {"post_processor", file.PostProcessor, t.addProcessor}, {"decoder", file.Decoder, t.addDecoder}} {
		if part.of == nil {
			continue
		}
		if err := part.add(*part.of); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	for _, a := range file.AddedTokens {
		if !a.Normalized {
			t.added.add(a)
			continue
		}
		a.Content = t.normalized(a.Content)
		t.later.add(a)
	}
	for _, name := range []string{"<pad>", "[PAD]", "<|endoftext|>", "<|end|>"} {
		if id, is := t.ids[name]; is {
			t.padding = id
			break
		}
	}
	if file.Padding != nil {
		t.padding = file.Padding.PadID
	}
	return t, nil
}

// Vocab is one more than the largest id.
func (t *Tokenizer) Vocab() int { return len(t.tokens) }

// ID is the id of a token, such as <|endoftext|>.
func (t *Tokenizer) ID(token string) (id int32, is bool) {
	id, is = t.ids[token]
	return id, is
}

// Encode is a text as ids, with the special tokens around it that the model wants.
func (t *Tokenizer) Encode(text string) ([]int32, error) {
	if t == nil {
		return nil, errors.New("hub: the model has no tokenizer.json: want tokens in place of a text")
	}
	ids := slices.Clone(t.before)
	for _, s := range t.added.split(text, true) {
		all := []stretch{s}
		if s.token == nil {
			all = t.later.split(t.normalized(s.text), s.first)
		}
		for _, s := range all {
			if s.token != nil {
				ids = append(ids, s.token.ID)
				continue
			}
			var err error
			if ids, err = t.encodePiece(s.text, s.first, ids); err != nil {
				return nil, fmt.Errorf("hub: Encode(%.20q): %w", text, err)
			}
		}
	}
	return append(ids, t.after...), nil
}

func (t *Tokenizer) normalized(text string) string {
	for _, f := range t.normalize {
		text = f(text)
	}
	return text
}

// encodePiece appends the ids of a normalized text without added tokens. first: it is the beginning.
func (t *Tokenizer) encodePiece(text string, first bool, ids []int32) (_ []int32, err error) {
	pieces := []string{text}
	for _, f := range t.split {
		pieces = f(pieces, first)
	}
	for _, p := range pieces {
		if p == "" {
			continue
		}
		if ids, err = t.model.encode(p, ids); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// Decode is ids as text. Special tokens are left out; an id out of range becomes U+FFFD.
func (t *Tokenizer) Decode(ids []int32) string {
	var all []string
	for _, id := range ids {
		switch {
		case id < 0 || int(id) >= len(t.tokens):
			all = append(all, "\uFFFD")
		case !t.special[id] && t.tokens[id] != "":
			all = append(all, t.tokens[id])
		}
	}
	if t.decode == nil {
		return strings.Join(all, " ")
	}
	for _, f := range t.decode {
		all = f(all)
	}
	return strings.ToValidUTF8(strings.Join(all, ""), "\uFFFD")
}

// Batch is texts as ids [n length], with padding after them, and 1 for each id that is not padding.
func (t *Tokenizer) Batch(length int, texts ...string) (ids, mask [][]int32, err error) {
	for i, text := range texts {
		l, err := t.Encode(text)
		if err != nil {
			return nil, nil, err
		}
		if len(l) > length {
			return nil, nil, fmt.Errorf("hub: Batch: text %d, %.20q, has %d tokens: want at most %d, or a larger length", i, text, len(l), length)
		}
		there := slices.Repeat([]int32{1}, len(l))
		for len(l) < length {
			l, there = append(l, t.padding), append(there, 0)
		}
		ids, mask = append(ids, l), append(mask, there)
	}
	return ids, mask, nil
}

// Corpus is a text file as tokens, without special tokens, for data.Corpus's Windows.
func (t *Tokenizer) Corpus(path string) (data.Corpus, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return data.Corpus{}, fmt.Errorf("hub: %w", err)
	}
	ids, err := t.Encode(string(b))
	if err != nil {
		return data.Corpus{}, err
	}
	return data.Corpus{Tokens: ids[len(t.before) : len(ids)-len(t.after)]}, nil
}

// addProcessor says what Encode adds.
func (t *Tokenizer) addProcessor(s section) error {
	switch s.Type {
	case "Sequence":
		for _, p := range s.Processors {
			if err := t.addProcessor(p); err != nil {
				return err
			}
		}
	case "ByteLevel": // changes offsets only
	case "TemplateProcessing":
		to := &t.before
		for _, part := range s.Single {
			if part.SpecialToken == nil {
				to = &t.after
				continue
			}
			special, is := s.SpecialTokens[part.SpecialToken.ID]
			if !is {
				return fmt.Errorf("TemplateProcessing has no special token %q", part.SpecialToken.ID)
			}
			*to = append(*to, special.IDs...)
		}
	case "BertProcessing", "RobertaProcessing":
		for i, pair := range [][]any{s.Cls, s.Sep} {
			if len(pair) != 2 {
				return fmt.Errorf("%s: want cls and sep, each with a token and an id", s.Type)
			}
			id, _ := pair[1].(float64)
			*[]*[]int32{&t.before, &t.after}[i] = []int32{int32(id)}
		}
	default:
		return fmt.Errorf("got a %s: want TemplateProcessing, BertProcessing, RobertaProcessing or ByteLevel", s.Type)
	}
	return nil
}
