//go:build unix && race

package chaos

// raceEnabled says whether the tests, and so the program under test, look for
// data races.
const raceEnabled = true
