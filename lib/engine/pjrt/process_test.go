package pjrt
func child(string) {}
