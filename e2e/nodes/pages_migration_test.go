package nodes

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// followMigration follows docs/migration.md with one hostPath volume: there, and back.
func followMigration(s *harness.Scene) {
	claim := s.Create(harness.Claim{Node: one.Name})
	pv := s.Bound(claim).Name
	end(s, pod{claim: claim.Name, script: "echo precious >/data/file", hostname: one.Hostname}.run(s))
	r := follow(s, "docs/migration.md")
	takeAgentAway(s) // as the header of examples/both-modes says
	r.run("STORAGE=")
	r.run("sed -i.bak")
	r.run("kubectl apply -k $STORAGE")
	s.Cleanup(func() {
		if _, err := kubectl("", "delete", "-f", filepath.Join(root, "manifests", "examples", "migrate", "rbac.yaml"), "--ignore-not-found"); err != nil {
			s.Error(err)
		}
	})
	awaitDrivers(s)
	want(s, r.run("kubectl -n hostpath-provisioner get pods"), one.Name)
	plan := r.rest[0]
	verdict := func(mode, want string) {
		s.Helper()
		s.Eventually(mode+": "+want, func() error {
			r.values["POD"] = driverPod(s, one)
			out, err := r.shell(plan.Fill(r.values))
			if err == nil && (!strings.Contains(out, "--migrate-to-csi="+mode+":") || !regexp.MustCompile(pv+` .*`+want).MatchString(out)) {
				err = fmt.Errorf("the plan is\n%s", out)
			}
			return err
		})
	}
	mode := func(mode string) { // the page says which, and daemonset.yaml of examples/migrate where
		s.Helper()
		_, err := kubectl("", "-n", harness.Namespace, "set", "env", "daemonset/"+csiSet, "MIGRATE_TO_CSI="+mode)
		must(s, mode, err)
		awaitDrivers(s)
	}
	verdict("plan", " ready")
	r.run("kubectl -n hostpath-provisioner exec POD -- /hostpath-provisioner migrate")
	r.run("kubectl -n hostpath-provisioner set env")
	awaitDrivers(s)
	verdict("annotated", " left")
	r.values["PV"] = pv
	r.run("kubectl annotate pv PV")
	verdict("annotated", " migrated")
	r.run("kubectl -n hostpath-provisioner patch configmap")
	r.end()
	if s.PV(pv).Spec.CSI == nil {
		s.Error("it is no CSI PV")
	}
	// "Back", of a PV that was tried alone.
	mode("back")
	verdict("back", ` migrated .*takes precedence over the mode: kubectl annotate pv `)
	_, err := kubectl("", "annotate", "pv", pv, "hostpath-provisioner.kubevirt.io/migrate-") // as the reason says
	must(s, "annotate", err)
	verdict("back", " left")
	if s.PV(pv).Spec.HostPath == nil {
		s.Error("it is no hostPath PV")
	}
	if err := keptFile("../" + pv); err != nil {
		s.Error(err)
	}
	mode("off")
	r.values["POD"] = driverPod(s, one)
	s.Eventually("checked", func() error {
		if out, err := r.shell(plan.Fill(r.values)); err != nil || !strings.Contains(out, "no migration in progress; this mode checks no other PVs") {
			return fmt.Errorf("%s, %w", out, err)
		}
		return nil
	})
}
