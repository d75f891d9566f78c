package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/lib/timing"
)

// TestRounds holds that the k-th samples of all subjects are measured beside each
// other, and that a peer which fails costs its own rows and is named. Peers are
// shell scripts here.
func TestRounds(t *testing.T) {
	const first = `echo '{"Case": "net-first", "Subject": "peer a", "Unit": "s", "Samples": [3]}'
`
	const one = first + `echo '{"Subjects": ["peer a"]}'
`
	const ready = one + `echo '{"Subjects": ["peer b"]}'; echo '{"Subjects": []}'
`
	const measures = `while read way; do
	k=$((k+1))
	%s
	echo "{\"Case\": \"net\", \"Subject\": \"$way\", \"Samples\": [$k]}"
done`
	own := []string{"gaiden"}
	all := []string{"gaiden", "peer a", "net-first", "peer b"}
	tests := []struct {
		name, script string
		limit        time.Duration
		rows         []string // subjects, and cases that are not the net's
		said         string
	}{
		{"good", ready + fmt.Sprintf(measures, ":"), time.Minute, all, ""},
		{"no library", "exit 0", time.Minute, own, ""},
		{"fails at once", "exit 3", time.Minute, own, "exit status 3"},
		{"fails while it prepares", first + "exit 3", time.Minute, own, "exit status 3"},
		{"dies", ready + fmt.Sprintf(measures, "if test $k = 4; then kill -9 $$; fi"), time.Minute, own, "signal: killed"},
		{"ends early", ready + fmt.Sprintf(measures, "if test $k = 4; then exit 0; fi"), time.Minute, own, `it ended: want a sample of "peer b"`},
		{"rubbish while it prepares", "echo Loading", time.Minute, own, `printed "Loading": want a line of JSON`},
		{"rubbish", ready + fmt.Sprintf(measures, "echo Segmentation"), time.Minute, own, `printed "Segmentation"`},
		{"too long a line", ready + fmt.Sprintf(measures, "head -c 100000 /dev/zero; continue"), time.Minute, own, "token too long"},
		{"another's sample", ready + fmt.Sprintf(measures, "way=c"), time.Minute, own, `got 1 samples of "c", want one of "peer a"`},
		{"hangs while it prepares", first + "exec sleep 1000", time.Second / 2, own, "printed nothing: for 500ms"},
		{"hangs while it prepares the second", one + `if test "$#" = 1; then exec sleep 1000; fi; test "$*" = "net peer a" && echo '{"Subjects": []}'
` + fmt.Sprintf(measures, ":"), time.Second / 2, []string{"gaiden", "peer a", "net-first"}, "started again for peer a alone"},
		{"ends while it prepares the second", one, time.Minute, own, "it ended before all was ready"},
		{"hangs while it prepares each time", one + "exec sleep 1000", time.Second / 2, own, "no figures of peer.sh"},
		{"hangs", ready + fmt.Sprintf(measures, "if test $k = 3; then exec sleep 1000; fi"), time.Second / 2, own, "printed nothing: for 500ms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var said strings.Builder
			b := &bench{name: "train", python: "/bin/sh", limit: tt.limit, turns: 5, progress: &said}
			p, l, err := b.prepare("peer.sh", []byte(tt.script), "net")
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			gaiden := &subject{name: "gaiden", measure: func() (float64, error) { count++; return float64(count), nil }}
			subjects := append([]*subject{gaiden}, l...)
			settled := 0
			if err := b.rounds("net", subjects, func() error { settled++; return nil }); err != nil {
				t.Fatal(err)
			}
			p.end(time.Minute)
			if p.err != nil && tt.said == "" {
				t.Errorf("a peer that was asked to end: got %v, want no error", p.err)
			}
			var rows []string
			for _, r := range b.records {
				name := r.Subject
				if r.Case == "net-cpu" {
					continue
				}
				if r.Case != "net" {
					name = r.Case
				} else if r.N != 5 {
					t.Errorf("%s: got %d samples, want %d", name, r.N, 5)
				}
				rows = append(rows, name)
			}
			if !slices.Equal(rows, tt.rows) {
				t.Errorf("got rows %q, want %q", rows, tt.rows)
			}
			if !strings.Contains(said.String(), tt.said) || tt.said == "" && said.Len() > 0 {
				t.Errorf("said %q, want %q", said.String(), tt.said)
			}
			if tt.said == "" && len(subjects) == 3 { // the peer counts what it was asked: a, a, b, b, a, a, …, the first time to get warm
				if a, b := subjects[1].samples, subjects[2].samples; !slices.Equal(a, []float64{2, 6, 10, 14, 18}) || !slices.Equal(b, []float64{4, 8, 12, 16, 20}) {
					t.Errorf("got %v and %v: want rounds", a, b)
				}
				if settled != 3*5 {
					t.Errorf("settled %d times, want once for each that counts", settled)
				}
			}
		})
	}
}

// TestWarm holds that a long measurement is done again where another process ran
// before it, and only there.
func TestWarm(t *testing.T) {
	count := 0
	long := func() (float64, error) { time.Sleep(brief + time.Millisecond); count++; return float64(count), nil }
	a, b := &peer{}, &peer{}
	for _, tt := range []struct {
		name     string
		x, after *subject
		want     float64
	}{
		{"first", &subject{}, nil, 2},
		{"after another way of its own", &subject{}, &subject{}, 1},
		{"after a peer", &subject{}, &subject{peer: a}, 2},
		{"a peer after Gaiden", &subject{peer: a}, &subject{}, 2},
		{"a peer after another", &subject{peer: b}, &subject{peer: a}, 2},
		{"a peer's second way", &subject{peer: b}, &subject{peer: b}, 1},
	} {
		count, tt.x.measure = 0, long
		settled := 0.0
		got, err := tt.x.warm(tt.after, func() error { settled = float64(count); return nil })
		if got != tt.want || err != nil {
			t.Errorf("%s: got the measurement %v, error %v, want number %v", tt.name, got, err, tt.want)
		}
		if settled != tt.want-1 {
			t.Errorf("%s: settled after measurement %v, want %v", tt.name, settled, tt.want-1)
		}
	}
}

// TestRoundsAsAsked holds that -rounds says how often each way is measured.
func TestRoundsAsAsked(t *testing.T) {
	b := &bench{name: "train", turns: 2, progress: &strings.Builder{}}
	x := &subject{name: "gaiden epoch", measure: func() (float64, error) { return 1, nil }}
	if err := b.rounds("net", []*subject{x}, func() error { return nil }); err != nil || len(x.samples) != 2 {
		t.Errorf("got %d samples, %v, want 2", len(x.samples), err)
	}
}

// TestRoundsOfOurs holds that an error of Gaiden's own is not passed over.
func TestRoundsOfOurs(t *testing.T) {
	b := &bench{name: "train", turns: 1, progress: &strings.Builder{}}
	err := b.rounds("net", []*subject{{name: "gaiden epoch", measure: func() (float64, error) { return 0, fmt.Errorf("no memory") }}}, nil)
	if err == nil || err.Error() != "gaiden epoch: no memory" {
		t.Errorf("got %v, want the subject and its error", err)
	}
}

// TestUnsettled holds that a session which cannot be settled is no fault of a peer's.
func TestUnsettled(t *testing.T) {
	p := &peer{}
	b := &bench{name: "train", turns: 1, progress: &strings.Builder{}}
	err := b.rounds("net", []*subject{{name: "peer a", peer: p, measure: func() (float64, error) { return 1, nil }}}, func() error { return fmt.Errorf("disk full") })
	if err == nil || err.Error() != "disk full" || p.failed {
		t.Errorf("got %v, peer failed %t, want the session's error", err, p.failed)
	}
}

// TestKeep holds that what was measured is in the file before the run is over.
func TestKeep(t *testing.T) {
	b := &bench{name: "train", out: filepath.Join(t.TempDir(), "figures.json")}
	for i, name := range []string{"mlp", "lenet5"} {
		b.addSamples(name, "gaiden epoch", "µs", []float64{1, 2, 3})
		text, err := os.ReadFile(b.out)
		if err != nil {
			t.Fatal(err)
		}
		var kept []timing.Record
		if err := json.Unmarshal(text, &kept); err != nil {
			t.Fatal(err)
		}
		if len(kept) != i+1 || kept[i].Case != name || kept[i].Median != 2 {
			t.Errorf("after %d measurements: got %+v", i+1, kept)
		}
	}
}

func TestWants(t *testing.T) {
	for _, tt := range []struct {
		only, name string
		want       bool
	}{{"", "mlp-b100", true}, {"mlp", "mlp-b100", true}, {"peaks,mlp", "mlp-b100", true}, {"peaks,lstm", "mlp-b100", false}} {
		if got := (&bench{only: tt.only}).wants(tt.name); got != tt.want {
			t.Errorf("-only %q, %s: got %t", tt.only, tt.name, got)
		}
	}
}
