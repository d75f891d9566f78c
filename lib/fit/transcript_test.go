package fit

import (
	"context"
	"slices"
	"testing"
	"time"
)

// TestChatRestores holds what a call whose connection has dropped does with its chat: the text
// that was shown is put back on that of a snapshot, but not over what another call has made of the
// chat since, nor while one is at it.
func TestChatRestores(t *testing.T) {
	defer func(was time.Duration) { creationTime = was }(creationTime)
	creationTime = 50 * time.Millisecond
	s, other := open(t), open(t)
	n := talker(t, "restores", tell("gpt"), Config{Session: s, Tokenizer: letters, FirstLook: true}).WithContext(context.Background())
	say := func(prompt string) {
		t.Helper()
		if _, err := n.Generate(prompt, Sampling{Length: 4, Chat: "tea"}); err != nil {
			t.Fatal(err)
		}
	}
	say("abc")
	c := &conversation{writing: &writing{Sampling: Sampling{Chat: "tea"}, net: n, ctx: context.Background()}}
	has := func() *transcript {
		t.Helper()
		k, err := readTranscript(other, c.prefix())
		if err != nil || k == nil {
			t.Fatalf("got transcript %v, %v, want one", k, err)
		}
		return k
	}
	longer := func(k *transcript, last ...int32) *transcript {
		l := append(slices.Clone(k.texts()[0]), last...)
		return &transcript{tokens: l[:len(l)-1], last: l[len(l)-1:], rows: 1, slots: len(l) - 1}
	}
	restore := func(name string, others bool, want *transcript) {
		t.Helper()
		if got, err := c.restored(); err != nil || got != others {
			t.Errorf("%s: got %t, %v, want %t", name, got, err, others)
		}
		if got := has(); !got.equal(want) {
			t.Errorf("%s: the chat is %v, want %v", name, got.texts(), want.texts())
		}
	}
	c.found = has()
	c.kept = longer(c.found, 1, 2)
	restore("an older text", false, c.kept)
	restore("the same text", false, c.kept)

	unlock, err := other.Lock(context.Background(), c.prefix(), "generates in", 0)
	if err != nil {
		t.Fatal(err)
	}
	now := has()
	c.kept = longer(now, 3)
	restore("a text that is being continued", true, now)
	unlock()

	c.kept = longer(now, 3)
	say("de")
	restore("a text that was continued", true, has())

	c.found, c.kept = has(), longer(&transcript{tokens: []int32{7}, last: []int32{8}, rows: 1, slots: 1}, 9) // of Restart
	restore("what Restart has replaced", false, c.kept)
}
