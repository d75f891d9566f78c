package jupyter

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// TestSignature compares with values that Python's hmac module gave for the key
// "secret" and the parts {"msg_id":"1","msg_type":"x"}, {}, {}, {"a":"é"}.
func TestSignature(t *testing.T) {
	m := Message{RawHeader: []byte(`{"msg_id":"1","msg_type":"x"}`), Content: []byte(`{"a":"é"}`)}
	for scheme, want := range map[string]string{
		"":            "bb651e46228f2d0f567c89a924625de9badf136b544121810b16fa0e1114f709",
		"hmac-sha256": "bb651e46228f2d0f567c89a924625de9badf136b544121810b16fa0e1114f709",
		"hmac-sha1":   "473e419df9e2c2ca3d0fd5432bc4e708706c246b",
		"hmac-sha512": "891356e5b5d5ccf0c16f2da2b6fbcd3625335495e971b30fbaf7a633886d4a3bcdd6eaaf3dc5e58e9ea40c44b1ebdb1e242791eed10ad9041983c2c76f41799b",
	} {
		s, err := Connection{Key: "secret", Scheme: scheme}.Signer()
		if err != nil {
			t.Fatal(err)
		}
		frames, err := s.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(frames[1]); got != want {
			t.Errorf("%s: signature is %s, want %s", scheme, got, want)
		}
	}
}

func TestMessageRoundTrip(t *testing.T) {
	signer, _ := Connection{Key: "k"}.Signer()
	for _, s := range []Signer{{}, signer} {
		m := Message{
			Identities: [][]byte{[]byte("a"), {}},
			Header:     NewHeader("x_request", "s", "u"),
			Parent:     []byte(`{"msg_id":"p"}`),
			Metadata:   []byte(`{"m":1}`),
			Content:    []byte(`{"c":[1,2]}`),
			Buffers:    [][]byte{{1}, {}, {2}},
		}
		frames, err := s.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Decode(frames)
		if err != nil {
			t.Fatal(err)
		}
		m.RawHeader = got.RawHeader
		if !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, want %+v", got, m)
		}
		if got.ParentID() != "p" {
			t.Errorf("parent is %q, want p", got.ParentID())
		}
	}
}

func TestNewID(t *testing.T) {
	a, b := NewID(), NewID()
	if len(a) != 36 || a[14] != '4' || a == b {
		t.Errorf("ids are %s and %s, want two different UUIDs of version 4", a, b)
	}
}

// FuzzDecode cuts random bytes into frames at 0xfe. What decodes must encode to
// frames that decode to the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("id\xfe<IDS|MSG>\xfe\xfe{\"msg_id\":\"1\",\"msg_type\":\"x\"}\xfe{}\xfe{}\xfe{}\xfebuffer"))
	f.Add([]byte("<IDS|MSG>\xfe\xfe{}\xfe{}\xfe{}"))
	f.Add([]byte(""))
	signed, _ := Connection{Key: "k"}.Signer()
	f.Fuzz(func(t *testing.T, data []byte) {
		frames := bytes.Split(data, []byte{0xfe})
		var fault *FrameError
		if _, err := signed.Decode(frames); err != nil && !errors.As(err, &fault) {
			t.Errorf("error is %T, want *FrameError", err)
		}
		m, err := Signer{}.Decode(frames)
		if err != nil {
			return
		}
		again, err := Signer{}.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Signer{}.Decode(again)
		if err != nil || back.Header != m.Header || back.ParentID() != m.ParentID() || len(back.Buffers) != len(m.Buffers) {
			t.Errorf("got %+v, %v after a round trip, want %+v", back, err, m)
		}
	})
}
