package main

import (
	"strings"
	"testing"
)

const given = `{"Action":"start","Package":"kubevirt.io/hostpath-provisioner/volume"}
{"Action":"output","Package":"kubevirt.io/hostpath-provisioner/volume","Test":"TestFast","Output":"quiet\n"}
{"Action":"pass","Package":"kubevirt.io/hostpath-provisioner/volume","Test":"TestFast","Elapsed":0.1}
{"Action":"output","Package":"kubevirt.io/hostpath-provisioner/volume","Test":"TestSlow","Output":"why it failed\n"}
{"Action":"fail","Package":"kubevirt.io/hostpath-provisioner/volume","Test":"TestSlow","Elapsed":12.5}
{"Action":"fail","Package":"kubevirt.io/hostpath-provisioner/volume","Elapsed":12.75}
{"Action":"pass","Package":"kubevirt.io/hostpath-provisioner/e2e/suite","Test":"TestBurst","Elapsed":7}
{"Action":"pass","Package":"kubevirt.io/hostpath-provisioner/e2e/suite","Elapsed":20}
`

func TestTimes(t *testing.T) {
	all, err := read(strings.NewReader(given))
	if err != nil || !all.failed {
		t.Fatalf("failed: %v, %v", all.failed, err)
	}
	var w strings.Builder
	all.print(&w, 2)
	const want = `why it failed
    12.5 s  volume TestSlow  FAILED
     7.0 s  e2e/suite TestBurst

    20.0 s  e2e/suite
    12.8 s  volume  FAILED
    32.8 s  all packages, one after the other
`
	if w.String() != want {
		t.Errorf("got\n%swant\n%s", w.String(), want)
	}
}

// A package that does not build is a failure too, and what the go command says besides is shown.
func TestTimesOfNothing(t *testing.T) {
	all, err := read(strings.NewReader(`{"ImportPath":"a/b","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"a/b","Action":"build-fail"}
no such tool`))
	if err != nil || !all.failed || strings.Join(all.output, "") != "undefined: x\nno such tool" {
		t.Errorf("%v, failed: %v, output %q", err, all.failed, all.output)
	}
}
