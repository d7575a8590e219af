package pooldir

import "testing"

func TestCheckKernel(t *testing.T) {
	for release, fine := range map[string]bool{
		"6.18.44-fc": true, "5.14.0-362.el9.x86_64": true, "5.13.19": false, "4.18.0-553.el8": false, "custom": true, "10.0": true,
	} {
		if got := checkKernel(release) == nil; got != fine {
			t.Errorf("%s: fine %v", release, got)
		}
	}
	if err := CheckKernel(); err != nil {
		t.Errorf("this machine: %v", err)
	}
}
