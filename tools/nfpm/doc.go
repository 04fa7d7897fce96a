// Package nfpm holds no code. Its module pins the tool that makes the Debian
// package, apart from the other tools: the two lists of needs do not mix.
package nfpm
