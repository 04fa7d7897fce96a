package bucketer

import "testing"

func TestAForgottenSensorMakesRoom(t *testing.T) {
	s := NewSensors(1)
	if !s.Admit("a") || s.Admit("b") {
		t.Fatal("the limit does not hold")
	}
	s.Forget("a")
	s.Forget("never seen")
	if s.Len() != 0 || !s.Admit("b") || s.Admit("a") {
		t.Error("a sensor that is gone takes up room")
	}
}
