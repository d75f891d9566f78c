//go:build !pjrtplain

package pjrt

const plainWalk = false
