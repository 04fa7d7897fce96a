package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// sessionFile remembers what our session at the broker is subscribed to. A
// persistent session keeps a filter that was taken out of the settings, and
// MQTT has no way to ask for it: messages of that filter would come for ever,
// and wait in the broker's queue in the place of those that are wanted.
type sessionFile struct {
	path string // empty: nothing is remembered
}

// sessionState is the file's content.
type sessionState struct {
	ClientID string   `json:"clientId"`
	Filters  []string `json:"filters"`
}

// read is what was subscribed to under the client id when it was last saved.
func (f sessionFile) read(clientID string) ([]string, error) {
	if f.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what the session is subscribed to: %w", err)
	}
	var state sessionState
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("cannot read what the session is subscribed to, %q is damaged: %w", f.path, err)
	}
	if state.ClientID != clientID {
		return nil, nil // another session, which is not ours to change
	}
	return state.Filters, nil
}

// write saves what is subscribed to. It replaces the file as a whole, so that
// a crash leaves the old one or the new one.
func (f sessionFile) write(clientID string, filters []string) error {
	if f.path == "" {
		return nil
	}
	text, err := json.Marshal(sessionState{clientID, filters})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o750); err != nil {
		return fmt.Errorf("cannot save what the session is subscribed to: %w", err)
	}
	part := f.path + ".part"
	if err := os.WriteFile(part, text, 0o600); err != nil {
		return fmt.Errorf("cannot save what the session is subscribed to: %w", err)
	}
	if err := os.Rename(part, f.path); err != nil {
		return fmt.Errorf("cannot save what the session is subscribed to: %w", err)
	}
	return nil
}

// dropped is what is in had and not in want.
func dropped(had, want []string) []string {
	return slices.DeleteFunc(slices.Clone(had), func(f string) bool { return slices.Contains(want, f) })
}
