package provision

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubevirt.io/hostpath-provisioner/controller/class"
	"kubevirt.io/hostpath-provisioner/volume"
)

// reasonFailed is the reason of every refusal on a claim. It is the one the
// library uses, so that one search finds all.
const reasonFailed = "ProvisioningFailed"

// topicSpace is the refusal that a scheduler can do something about.
const topicSpace = "space"

// refusal is why a claim cannot be served here.
type refusal struct {
	topic   string // what the event is about; one event a topic
	message string
	// forNow: the answer may change without anybody touching the claim.
	forNow bool
	// silent: another agent of this node serves the claim.
	silent bool
}

// refusalOf returns nil where nothing speaks against serving the claim now.
func (c *Controller) refusalOf(claim *corev1.PersistentVolumeClaim) *refusal {
	if err := class.CheckOffered(claim); err != nil {
		return &refusal{topic: "offered", message: err.Error()}
	}
	if _, err := c.pool.ByPV(pvName(claim)); err == nil {
		return nil // its space is promised already
	}
	space, err := c.pool.Space()
	if err != nil {
		return c.notReady(err)
	}
	if wanted := class.Bytes(claim); wanted > space.Promisable {
		return &refusal{topic: topicSpace, message: c.noSpace(&volume.SpaceError{
			Wanted: wanted, Promisable: space.Promisable, Total: space.Total, Estimate: space.Estimate,
		}), forNow: true}
	}
	return nil
}

func (c *Controller) notReady(err error) *refusal {
	return &refusal{topic: "ready", forNow: true, silent: heldHere(err, c.node),
		message: fmt.Sprintf("node %s cannot serve this claim now: %v; it will go on by itself once that is mended", c.node, err)}
}

// noSpace says what was asked, what there is, and what to do.
func (c *Controller) noSpace(e *volume.SpaceError) string {
	estimate := ""
	if e.Estimate {
		estimate = ", estimated"
	}
	return fmt.Sprintf("node %s cannot promise %s: %s of %s in %s can be promised "+
		"(in bytes: wanted %d, promisable %d%s, total %d); ask for less, free space there, or choose another node",
		c.node, class.Size(e.Wanted), class.Size(e.Promisable), class.Size(e.Total), c.pool.Path(),
		e.Wanted, e.Promisable, estimate, e.Total)
}

// refuse says the refusal on the claim once, and keeps the claim in mind where
// the answer may change.
func (c *Controller) refuse(ctx context.Context, claim *corev1.PersistentVolumeClaim, r *refusal) {
	if !r.silent {
		c.speaker.warn(ctx, claimRef(claim), r.topic, reasonFailed, r.message)
	}
	if r.forNow {
		c.waiting.add(claim.UID)
	}
}

// inWords gives the errors of Create that a user can act on their words.
func (c *Controller) inWords(err error) error {
	var space *volume.SpaceError
	if errors.As(err, &space) {
		return errors.New(c.noSpace(space))
	}
	return err
}

// pvName is the name of the PV that answers a claim, as the library gives it.
func pvName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }
