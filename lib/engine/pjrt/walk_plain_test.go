//go:build !amd64 || pjrtplain

package pjrt

const plainWalk = true
