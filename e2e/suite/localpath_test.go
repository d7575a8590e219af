package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

const localPath = "rancher.io/local-path"

// localPathOptions are the settings of manifests/local-path, with a configuration that gives all
// nodes the paths.
func localPathOptions(s *harness.Scene, paths ...string) harness.Options {
	s.Helper()
	return localPathOptionsIn(s, s.Path("config", "config.json"), paths...)
}

// localPathOptionsIn is localPathOptions for an agent that does not share config.json with another
// one of the scene.
func localPathOptionsIn(s *harness.Scene, file string, paths ...string) harness.Options {
	s.Helper()
	writeConfig(s, file, map[string]any{"nodePathMap": []any{map[string]any{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": paths}}})
	return harness.Options{Kubeconfig: s.LocalPathKubeconfig, Env: []string{"COMPAT=local-path", "HPP_LOCAL_PATH_CONFIG=" + file}}
}

// writeConfig replaces config.json at once, as the kubelet does.
func writeConfig(s *harness.Scene, file string, config any) {
	s.Helper()
	text, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(file+".new", text, 0o644)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// localPathClass is as the class of the manifests, but not the cluster's default.
func localPathClass(s *harness.Scene, suffix string, edit func(*storagev1.StorageClass)) string {
	s.Helper()
	return s.Class(suffix, func(c *storagev1.StorageClass) {
		mode, expand := storagev1.VolumeBindingWaitForFirstConsumer, true
		c.Provisioner, c.VolumeBindingMode, c.AllowVolumeExpansion = localPath, &mode, &expand
		if edit != nil {
			edit(c)
		}
	})
}

func localPathDirectory(claim *corev1.PersistentVolumeClaim) string {
	return harness.PVName(claim) + "_" + claim.Namespace + "_" + claim.Name
}

// newLocalPath is a node whose agent serves the class in its one pool.
func newLocalPath(t *testing.T) (*harness.Scene, *harness.Agent) {
	t.Helper()
	s := env.Scene(t)
	node := s.Node("01")
	return s, s.Agent(node, localPathOptions(s, node.Pool))
}

// The PVs have the names and the shape that the local-path provisioner gives them, grow, and go
// with their claims. No pod is created for any of that.
func TestLocalPathServes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		class, claim string // the annotations
		local        bool
	}{
		"default":        {"", "", false},
		"claim local":    {"", "local", true},
		"class local":    {"local", "", true},
		"claim hostPath": {"local", "hostPath", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, a := newLocalPath(t)
			sc := localPathClass(s, "class", func(c *storagev1.StorageClass) {
				if row.class != "" {
					c.Annotations = map[string]string{"defaultVolumeType": row.class}
				}
			})
			claim := s.Create(harness.Claim{Name: "data", Class: sc, Selected: a.Node.Name, Edit: func(c *corev1.PersistentVolumeClaim) {
				if row.claim != "" {
					metav1.SetMetaDataAnnotation(&c.ObjectMeta, "volumeType", row.claim)
				}
			}})
			pv, path := s.Bound(claim), filepath.Join(a.Pool, localPathDirectory(claim))
			if err := isLocalPathPV(a, pv, path, row.local); err != nil {
				t.Error(err)
			}
			s.Write(path, "data", []byte("data"))
			ask(s, claim, "25Mi")
			s.Eventually("grown", func() error { return hasBytes(s, a, claim, path, 25<<20) })
			if err := firstError(s.Unwarned(claim.UID), s.Unwarned(pv.UID)); err != nil {
				t.Error(err)
			}
			pods, err := s.Client.CoreV1().Pods(s.Namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(pods.Items) > 0 {
				t.Errorf("%d pods, %v", len(pods.Items), err)
			}
			s.Delete(claim)
			s.Gone(pv.Name)
			s.Eventually("empty pool", func() error { return empty(s, a) })
		})
	}
}

// isLocalPathPV returns nil if a new PV is as the local-path provisioner makes it, of the type
// Directory and with our pool.
func isLocalPathPV(a *harness.Agent, pv *corev1.PersistentVolume, path string, local bool) error {
	h := pv.Spec.HostPath
	switch {
	case local && (pv.Spec.Local == nil || pv.Spec.Local.Path != path),
		!local && (h == nil || h.Path != path || h.Type == nil || *h.Type != corev1.HostPathDirectory):
		return fmt.Errorf("source %+v, want path %s, local %v", pv.Spec.PersistentVolumeSource, path, local)
	case pv.Annotations[harness.AnnProvisionedBy] != localPath || pv.Annotations[harness.AnnPool] == "" ||
		pv.Labels[harness.LabelNode] != a.Node.Name || pv.Annotations["hostPathProvisionerIdentity"] != "":
		return fmt.Errorf("annotations %v, labels %v", pv.Annotations, pv.Labels)
	case pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return fmt.Errorf("policy %s", pv.Spec.PersistentVolumeReclaimPolicy)
	}
	term := pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != corev1.LabelHostname || term.Values[0] != a.Node.Hostname {
		return fmt.Errorf("affinity %+v", term)
	}
	return harness.Exists(path)
}

// hasBytes returns nil if claim, PV and record have that size.
func hasBytes(s *harness.Scene, a *harness.Agent, claim *corev1.PersistentVolumeClaim, path string, bytes int64) error {
	got, pv := s.Read(claim).Status.Capacity.Storage().Value(), s.PV(s.Read(claim).Spec.VolumeName).Spec.Capacity.Storage().Value()
	if v := a.Volume(filepath.Base(path)); got != bytes || pv != bytes || v.Bytes != bytes {
		return s.NotYet(claim.UID, "the claim has %d, the PV %d, the volume %d bytes", got, pv, v.Bytes)
	}
	return nil
}

// Existing PVs stay as they are, in place: they grow, and go with their claims. Neither needs the
// agent's label before.
func TestLocalPathAdopts(t *testing.T) {
	t.Parallel()
	for _, p := range otherProvisioners[1:] {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := env.Scene(t)
			node := s.Node("01")
			a := s.Later(node, localPathOptions(s, node.Pool))
			h := newTheirs(s, a, p)
			expandable(s, h.pv.Spec.StorageClassName)
			inode := h.find()
			a.Restart()
			a.AwaitReady()
			s.Eventually("adopted", func() error {
				pv := s.PV(h.pv.Name)
				if pv.Labels[harness.LabelNode] != node.Name || pv.Annotations[harness.AnnPool] != a.Inspect().Pool.ID {
					return s.NotYet(pv.UID, "labels %v, annotations %v", pv.Labels, pv.Annotations)
				}
				if v := a.Volume(filepath.Base(h.path)); !v.Adopted || v.State != "bound" || v.Bytes != 10<<20 || v.Owner.UID != string(h.claim.UID) {
					return fmt.Errorf("record %+v", v)
				}
				return nil
			})
			ask(s, h.claim, "25Mi")
			s.Eventually("grown", func() error { return hasBytes(s, a, h.claim, h.path, 25<<20) })
			pv := s.PV(h.pv.Name)
			if got, want := pv.Spec.PersistentVolumeSource, h.pv.Spec.PersistentVolumeSource; fmt.Sprint(got.HostPath, got.Local) != fmt.Sprint(want.HostPath, want.Local) {
				t.Errorf("source %+v, was %+v", got, want)
			}
			if got := h.find(); got != inode {
				t.Errorf("inode %d, was %d", got, inode)
			}
			if err := firstError(s.Unwarned(h.claim.UID), s.Unwarned(pv.UID)); err != nil {
				t.Error(err)
			}
			s.Delete(h.claim)
			s.Gone(h.pv.Name)
			s.Eventually("empty pool", func() error { return empty(s, a) })
		})
	}
}

// expandable lets claims of the class grow, as the overlays do with the class of before.
func expandable(s *harness.Scene, class string) {
	s.Helper()
	c, err := s.Client.StorageV1().StorageClasses().Get(s.Context(), class, metav1.GetOptions{})
	if err == nil {
		expand := true
		c.AllowVolumeExpansion = &expand
		_, err = s.Client.StorageV1().StorageClasses().Update(s.Context(), c, metav1.UpdateOptions{})
	}
	if err != nil {
		s.Fatal(err)
	}
}
