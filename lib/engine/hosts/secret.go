package hosts

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"os"
	"strings"
	"time"

	"gaiden/lib/engine/wire"
)

// A secret is what all hosts of a user's share: 32 random bytes or more, as text, in a file
// that only this user can read. Both ends of a TLS connection make the same key of it and
// accept no other: who does not know the secret can neither connect nor listen.

// NewSecret is a secret to be put into a file.
func NewSecret() string { return rand.Text() + rand.Text() }

// minSecret is the length, in bytes, under which a secret could be guessed.
const minSecret = 32

// ReadSecret reads a file with a secret.
func ReadSecret(path string) (string, error) {
	b, err := wire.ReadOwn(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if p := info.Mode().Perm(); p&0o077 != 0 {
		return "", wire.Errorf(wire.Denied, "secret %s: got mode %#o, want 0600: others can read it", path, p).WithHint("chmod 600 %s", path)
	}
	s := strings.TrimSpace(string(b))
	if len(s) < minSecret {
		return "", wire.Errorf(wire.Invalid, "secret %s: got %d bytes, want %d or more", path, len(s), minSecret).
			WithHint("gaiden session secret writes one; copy it to each host")
	}
	return s, nil
}

// errOtherSecret is said of a peer without the secret.
var errOtherSecret = errors.New("the other end does not have this secret")

// tlsOf is how both ends use TLS.
func tlsOf(secret string) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "gaiden hosts", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<36, 0)}
	cert, err := x509.CreateCertificate(nil, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // names and authorities say nothing here: the key is compared
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || !key.Public().(ed25519.PublicKey).Equal(s.PeerCertificates[0].PublicKey) {
				return errOtherSecret
			}
			return nil
		},
	}, nil
}
