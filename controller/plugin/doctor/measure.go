package doctor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	// measuredClaims is above the default burst of the controller-manager's clients, 30, so that the
	// limit of 20 writes a second shows.
	measuredClaims = 80
	// slow is the lag above which a finding says so. With the defaults the controller-manager needs
	// (80-30)/20 = 2.5 seconds, of which the API server takes less than one to delete the claims.
	slow = time.Second
	// measuredLabel marks the claims, so that they can be found if the plugin is killed.
	measuredLabel = "hostpath-provisioner.kubevirt.io/measure"
)

// Measured is how far the controller-manager was behind the API server.
type Measured struct {
	Claims int
	// Lag is the time from when the API server had deleted the claims until the controller-manager had
	// removed the finalizers of all.
	Lag time.Duration
	// Unknown says why it was not measured; "" if it was.
	Unknown string
}

// Measure creates claims in the namespace that no PV fits and no class serves, deletes them all at
// once, and waits until they are gone. Each takes one write of the controller-manager, which removes
// the finalizer kubernetes.io/pvc-protection. It deletes what it created in any case.
//
// The claims have names that begin with hpp-measure- and are marked with measuredLabel.
func Measure(ctx context.Context, client kubernetes.Interface, namespace string) *Measured {
	claims := client.CoreV1().PersistentVolumeClaims(namespace)
	run := fmt.Sprintf("%d", time.Now().UnixNano())
	selector := metav1.ListOptions{LabelSelector: measuredLabel + "=" + run}
	remove := func(ctx context.Context) error {
		return claims.DeleteCollection(ctx, metav1.DeleteOptions{}, selector)
	}
	defer func() {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		_ = remove(within) // what is left has the label
	}()
	for i := range measuredClaims {
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("hpp-measure-%s-%d", run, i),
				Labels: map[string]string{measuredLabel: run}},
			// Without the selector an Available PV without a class would be bound, and deleted with its data
			// after the claim if its policy is Delete. No PV has the label.
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(""),
				Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{measuredLabel: run}},
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceStorage: resource.MustParse("1")}}},
		}
		if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return &Measured{Unknown: fmt.Sprintf("cannot create claims in the namespace %s to measure with: %v", namespace,
				err)}
		}
	}
	if err := remove(ctx); err != nil {
		return &Measured{Unknown: fmt.Sprintf("cannot delete the claims of the measure, which have the label %s=%s: %v",
			measuredLabel, run, err)}
	}
	deleted := time.Now()
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		left, err := claims.List(within, selector)
		switch {
		case err != nil:
			return &Measured{Unknown: fmt.Sprintf("cannot list the claims of the measure: %v", err)}
		case len(left.Items) == 0:
			return &Measured{Claims: measuredClaims, Lag: time.Since(deleted)}
		}
		select {
		case <-within.Done():
			return &Measured{Unknown: fmt.Sprintf("%d of %d claims still have their finalizer after a minute: does "+
				"kube-controller-manager run?", len(left.Items), measuredClaims)}
		case <-time.After(100 * time.Millisecond):
		}
	}
}
