// Package arch holds no code. Its tests hold the tree to its rules: which
// package may import which, where each technology is at home, and the habits
// that no compiler looks after.
package arch
