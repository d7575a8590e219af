package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kubevirt.io/hostpath-provisioner/e2e/suite/harness"
)

// settle is the time between an agent's last work and the reading of its memory.
const settle = 10 * time.Second

const mebibyte = 1 << 20

// memory reads the memory of an agent of both backends while other nodes have many volumes: present
// at its start, and created while it runs. Its control plane binds no claims, because the volumes
// are created as they are in the end.
func (l *lab) memory(ctx context.Context, r *report) (err error) {
	own, err := l.another(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.env.Stop(false)) }()
	node, err := own.node(ctx, "memory")
	if err != nil {
		return err
	}
	few := l.foreign / 10
	if err := own.foreignVolumes(ctx, 0, few); err != nil {
		return err
	}
	agent, err := own.start(ctx, agentOf(shapeBoth), node, "")
	if err != nil {
		return err
	}
	first, err := own.settled(ctx, agent)
	if err == nil {
		err = own.foreignVolumes(ctx, few, l.foreign)
	}
	grown, err2 := own.settled(ctx, agent)
	agent.stop()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if agent, err = own.start(ctx, agentOf(shapeBoth), node, ""); err != nil {
		return err
	}
	started, err := own.settled(ctx, agent)
	agent.stop()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("with %d foreign volumes %s; after %d more came %s; an agent started then %s",
		few, first, l.foreign-few, grown, started)
	l.say("resident %s", text)
	r.bound("memory.own", "MiB", max(grown.own, started.own), 16)
	r.bound("memory.growth", "MiB", max(grown.now, started.now)-first.now, 12)
	r.notes = append(r.notes, "Memory: "+text+".")
	return nil
}

// bound adds a figure that is compared only with its bound.
func (r *report) bound(name, unit string, value, most float64) {
	r.add(figure{
		name: name, unit: unit, limit: nan, agent: value, ratios: sample{value / most},
		target: "<= " + number(most) + " " + unit, met: value <= most,
	})
}

// resident is the resident memory of a process, in MiB.
type resident struct{ now, own, peak float64 }

// The rest is the program's file, which all processes of the program share and which the kernel
// drops if memory is short.
func (m resident) String() string {
	return fmt.Sprintf("%.1f MiB (%.1f its own, the rest its file's; peak %.1f)", m.now, m.own, m.peak)
}

// settled returns the agent's memory after settle.
func (l *lab) settled(ctx context.Context, r *running) (m resident, err error) {
	select {
	case <-ctx.Done():
		return m, ctx.Err()
	case <-time.After(settle):
	}
	for field, to := range map[string]*float64{"VmRSS": &m.now, "RssAnon": &m.own, "VmHWM": &m.peak} {
		bytes, err := r.memory(field)
		if err != nil {
			return m, err
		}
		*to = float64(bytes) / mebibyte
	}
	return m, nil
}

// another returns a lab with the same programs and a control plane that binds no claims. The caller
// stops its Env.
func (l *lab) another(ctx context.Context) (*lab, error) {
	own := *l
	own.watch, own.ended = nil, nil
	own.env = l.env.Another(filepath.Join(l.env.Dir, "another"))
	own.env.Settings.ExtraArgs = map[string][]string{"kube-controller-manager": {"--controllers=-persistentvolume-binder-controller"}}
	err := own.env.StartPlane(ctx, nil)
	if err == nil {
		own.client, err = own.newClient()
	}
	if err == nil {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		_, err = own.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, errors.Join(err, own.env.Stop(true))
	}
	return &own, nil
}

// foreignVolumes creates claims and PVs of other nodes, bound to each other, half of them of either
// backend.
func (l *lab) foreignVolumes(ctx context.Context, from, to int) error {
	l.say("making %d foreign volumes", to-from)
	err := together(to-from, func(i int) error { return l.foreignVolume(ctx, from+i) })
	if err != nil {
		return fmt.Errorf("make foreign volumes: %w", err)
	}
	return nil
}

func (l *lab) foreignVolume(ctx context.Context, i int) error {
	shape, provisioner := shapeHostPath, harness.Provisioner
	if i%2 == 1 {
		shape, provisioner = shapeCSI, harness.Driver
	}
	node, name := fmt.Sprintf("foreign-%03d", i%100), "pvc-"+string(uuid.NewUUID())
	c := claimOf(agentOf(shape), node)
	c.Spec.VolumeName = name
	for key, value := range map[string]string{
		"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes",
		harness.AnnStorageProvisioner: provisioner, "volume.beta.kubernetes.io/storage-provisioner": provisioner,
	} {
		c.Annotations[key] = value
	}
	claims, pvs := l.client.CoreV1().PersistentVolumeClaims(namespace), l.client.CoreV1().PersistentVolumes()
	c, err := claims.Create(ctx, c, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pv, err := pvs.Create(ctx, foreignPV(name, node, provisioner, shape, c), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	c.Status.Phase, c.Status.AccessModes, c.Status.Capacity = corev1.ClaimBound, c.Spec.AccessModes, c.Spec.Resources.Requests
	pv.Status.Phase = corev1.VolumeBound
	_, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	_, err2 := pvs.UpdateStatus(ctx, pv, metav1.UpdateOptions{})
	return errors.Join(err, err2)
}

// foreignPV returns the PV that the other node's agent would have created.
func foreignPV(name, node, provisioner, shape string, c *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	mode, directory := corev1.PersistentVolumeFilesystem, corev1.HostPathDirectory
	source := corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/hpvolumes/" + name,
		Type: &directory}}
	key := corev1.LabelHostname
	if shape == shapeCSI {
		key = harness.TopologyNode
		source = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: provisioner, VolumeHandle: name, FSType: "xfs",
			VolumeAttributes: map[string]string{harness.StoragePool: harness.LocalPool},
		}}
	}
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{harness.LabelNode: node},
			Finalizers: []string{"external-provisioner.volume.kubernetes.io/finalizer"},
			Annotations: map[string]string{
				harness.AnnProvisionedBy: provisioner, harness.AnnIdentity: provisioner,
				harness.AnnProvisionOnNode: node, harness.AnnPool: string(uuid.NewUUID()),
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, AccessModes: c.Spec.AccessModes,
			Capacity: c.Spec.Resources.Requests, StorageClassName: *c.Spec.StorageClassName, VolumeMode: &mode,
			PersistentVolumeSource: source,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID,
				ResourceVersion: c.ResourceVersion,
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn,
					Values: []string{node}}},
			}}}},
		},
	}
}
