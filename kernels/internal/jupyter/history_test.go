package jupyter

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestHistoryFind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "history.jsonl")
	for session, cells := range []([]string){{"a1", "a2", "a3"}, {"b1", "a2"}, {"x := 1", "c2\nmore", "x := 1"}} {
		h, err := openHistory(path, historySize)
		if err != nil || h.session != session+1 {
			t.Fatalf("session is %d, %v, want %d", h.session, err, session+1)
		}
		for i, code := range cells {
			if err := h.add(i+1, code); err != nil {
				t.Fatal(err)
			}
		}
		if session < 2 {
			continue
		}
		for _, tt := range []struct {
			query string
			want  string // session/line, in order
		}{
			{`{"hist_access_type":"tail","n":2}`, "3/2 3/3"},
			{`{"hist_access_type":"tail","n":0}`, ""},
			{`{"hist_access_type":"tail","n":99}`, "1/1 1/2 1/3 2/1 2/2 3/1 3/2 3/3"},
			{`{"hist_access_type":"range","session":0}`, "3/1 3/2 3/3"},
			{`{"hist_access_type":"range","session":-1}`, "2/1 2/2"},
			{`{"hist_access_type":"range","session":1,"start":2}`, "1/2 1/3"},
			{`{"hist_access_type":"range","session":1,"start":1,"stop":3}`, "1/1 1/2"},
			{`{"hist_access_type":"range","session":1,"start":-1}`, "1/3"},
			{`{"hist_access_type":"range","session":1,"start":0,"stop":-1}`, "1/1 1/2"},
			{`{"hist_access_type":"range","session":7}`, ""},
			{`{"hist_access_type":"search","pattern":"a*"}`, "1/1 1/2 1/3 2/2"},
			{`{"hist_access_type":"search","pattern":"a*","n":1}`, "2/2"},
			{`{"hist_access_type":"search","pattern":"?2","unique":true}`, "1/2? 2/2"},
			{`{"hist_access_type":"search","pattern":"x*","unique":true}`, "3/3"},
			{`{"hist_access_type":"search","pattern":"*more"}`, "3/2"},
			{`{"hist_access_type":"search","pattern":"[bc]?*"}`, "2/1 3/2"},
			{`{"hist_access_type":"search","pattern":"A*"}`, ""},
			{`{"hist_access_type":"search"}`, "1/1 1/2 1/3 2/1 2/2 3/1 3/2 3/3"},
		} {
			var q query
			if err := json.Unmarshal([]byte(tt.query), &q); err != nil {
				t.Fatal(err)
			}
			entries, err := h.find(q)
			if err != nil {
				t.Errorf("%s: %v", tt.query, err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, fmt.Sprintf("%d/%d", e.Session, e.Line))
			}
			want := strings.Fields(strings.Replace(tt.want, "1/2? ", "", 1)) // a2 again in session 2: the last one is kept
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: got %v, want %v", tt.query, got, want)
			}
		}
	}
}

// TestHistoryBounded restarts often with many cells: the file stays small and
// keeps the newest.
func TestHistoryBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	for session := range 30 {
		h, err := openHistory(path, 10)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 7 {
			if err := h.add(i+1, fmt.Sprint(session, " ", i)); err != nil {
				t.Fatal(err)
			}
		}
		n := 99
		got, _ := h.find(query{Access: "tail", N: &n})
		if len(got) > 10 || got[len(got)-1] != (entry{session + 1, 7, fmt.Sprint(session, " ", 6)}) {
			t.Fatalf("session %d: history has %v, want 10 at most and the last cell last", session, got)
		}
	}
	text, _ := os.ReadFile(path)
	if lines := strings.Count(string(text), "\n"); lines > 30 {
		t.Errorf("the file has %d lines, want 30 at most", lines)
	}
}

// TestHistoryDamaged has lines that are torn or of something else.
func TestHistoryDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	text := "{\"session\":1,\"line\":1,\"input\":\"a\"}\n\x00\xff\n{}\n[]\n{\"session\":-1}\n{\"session\":1,\"line\":2,\"inp"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for want := 2; want < 4; want++ {
		h, err := openHistory(path, historySize)
		if err != nil || h.session != want {
			t.Fatalf("session is %d, %v, want %d", h.session, err, want)
		}
		if err := h.add(1, "b"); err != nil {
			t.Fatal(err)
		}
		if got, want := len(h.entries), want; got != want {
			t.Errorf("history has %d entries, want %d", got, want)
		}
	}
}

func TestHistoryUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openHistory(filepath.Join(file, "h"), historySize)
	if err == nil {
		t.Error("a history below a file opens, want an error")
	}
	if err := h.add(1, "a"); err != nil || len(h.entries) != 1 {
		t.Errorf("history has %v, %v, want the cell in memory", h.entries, err)
	}
}

// TestHistoryShared writes from several kernels to one file at once.
func TestHistoryShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h")
	var wg sync.WaitGroup
	sessions := make([]int, 8)
	for k := range sessions {
		wg.Go(func() {
			h, err := openHistory(path, 100)
			if err != nil {
				t.Error(err)
				return
			}
			sessions[k] = h.session
			for i := range 5 {
				if err := h.add(i+1, "cell"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[int]bool{}
	for _, s := range sessions {
		seen[s] = true
	}
	h, _ := openHistory(path, 100)
	if len(seen) != len(sessions) || len(h.entries) != 5*len(sessions) {
		t.Errorf("%d sessions of %d are different, and %d cells were kept, want %d", len(seen), len(sessions), len(h.entries), 5*len(sessions))
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"**", "abc", true}, {"a", "a", true}, {"a", "A", false},
		{"a*c", "abbc", true}, {"a*c", "abbcd", false}, {"*b*", "abc", true}, {"a*b*c", "aXbYbZc", true}, {"*/x", "a/b/x", true},
		{"?", "é", true}, {"?", "", false}, {"??", "é", false}, {"[abc]", "b", true}, {"[a-c]x", "bx", true}, {"[^a-c]", "b", false},
		{"[^a-c]", "d", true}, {"[", "[", false}, {"[a", "a", false}, {"*[0-9]", "ab7", true},
		{"*\n*", "a\nb", true}, {"*é", "éé", true},
		{"[z-a]", "m", false}, {"[^z-a]", "m", true}, {"[.*+\\\\]", "\\", true}, {"a.c", "abc", false}, {"x[", "x[", false},
	} {
		if got := matches(tt.pattern, tt.text); got != tt.want {
			t.Errorf("matches(%q, %q) is %v, want %v", tt.pattern, tt.text, got, tt.want)
		}
	}
	begin := time.Now()
	if matches(strings.Repeat("*a", 50)+"b", strings.Repeat("a", 10_000)) {
		t.Error("a pattern that ends in b matches a text without one")
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("a hard pattern took %v", took)
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "a": 0, "é": 0, "a\xc3": 1, "€": 0, "\xe2": 1, "\xe2\x82": 2, "😀": 0, "\xf0": 1, "\xf0\x9f": 2, "\xf0\x9f\x98": 3,
		"\x80\x80\x80\x80": 0, "\xff": 0, "a\xc0": 0, "\xe2a": 0,
	} {
		if got := cut([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("cut(%q) is %d, want %d", text, got, want)
		}
	}
}
