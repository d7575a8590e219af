package explain

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
	"kubevirt.io/hostpath-provisioner/controller/kube/events"
	"kubevirt.io/hostpath-provisioner/controller/kube/nodechoice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/advice"
	"kubevirt.io/hostpath-provisioner/controller/plugin/cluster"
)

// pending explains a claim without a PV. Each step returns false if the next ones make no sense.
func (e *explanation) pending() {
	_ = e.class() && e.provisioner() && !e.populated() && e.supported() && e.place()
}

// class reports whether the claim has a class that exists.
func (e *explanation) class() bool {
	switch name := e.answer.Class; {
	case !e.Class.Known():
		return false
	case e.Class.It != nil:
		return true
	case name != "":
		e.add(Cause, e.otherClasses(), "class %s does not exist", name)
	case e.Claim.Spec.StorageClassName != nil:
		e.add(Cause, "create a PV without a class for it, or "+advice.CreateAgain(&e.Claim, "a class"),
			"the claim has the empty class, so nothing provisions a volume for it")
	default:
		e.noClass()
	}
	return false
}

// noClass explains a claim that names no class. The API server gives a new claim the default class, and
// kube-controller-manager gives it to one that waits.
func (e *explanation) noClass() {
	switch names := contract.DefaultClasses(e.Classes.Items); {
	case !e.Classes.Known(): // whether there is a default
	case len(names) == 0:
		e.add(Cause, e.otherClasses()+"; or make one the default with the annotation "+
			"storageclass.kubernetes.io/is-default-class=true", "the claim names no class, and no class is the default")
	case len(names) == 1:
		e.add(Note, "wait a minute and run this again",
			"the claim names no class; class %s is the default, and kube-controller-manager gives it to the claim", names[0])
	default:
		e.add(Note, "wait a minute and run this again", "the claim names no class; several are the default (%s), and "+
			"kube-controller-manager gives the newest to the claim", strings.Join(names, ", "))
	}
}

// otherClasses names the classes that the agents serve.
func (e *explanation) otherClasses() string {
	var names []string
	for _, c := range e.Classes.Items {
		if len(e.served(c.Provisioner)) > 0 {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "create the class: see docs/storage-classes.md"
	}
	return advice.CreateAgain(&e.Claim, "a class that the agents serve ("+events.Names(names, events.Listed)+
		"), or create the class")
}

// served returns the agents that serve the claims of a provisioner.
func (e *explanation) served(provisioner string) (all []cluster.Agent) {
	for _, a := range e.Agents.Items {
		if a.Serves(provisioner) {
			all = append(all, a)
		}
	}
	return all
}

// provisioner reports whether an agent serves the class.
func (e *explanation) provisioner() bool {
	c := e.Class.It
	switch {
	case c.Provisioner == "kubernetes.io/no-provisioner":
		e.madeBeforehand()
		return false
	case !e.Agents.Known() || len(e.served(c.Provisioner)) > 0:
		return true
	case len(e.Agents.Items) == 0:
		e.add(Cause, "install it: see docs/install.md; kubectl get daemonsets -A -l "+
			"app.kubernetes.io/name=hostpath-provisioner "+
			"lists installations", "no agent of hostpath-provisioner runs in this cluster, and class %s needs provisioner %s",
			c.Name, c.Provisioner)
	case c.Provisioner == contract.HostPathProvisioner || c.Provisioner == contract.CSIProvisioner ||
		isDialect(c.Provisioner):
		e.add(Cause, "set PROVISION or COMPAT of the agents so that they serve it, or use another class: "+e.otherClasses(),
			"no agent serves provisioner %s of class %s; the agents serve %s", c.Provisioner, c.Name, e.provisioners())
	default:
		e.add(Cause, "look at that provisioner, or use another class: "+e.otherClasses(),
			"class %s is of provisioner %s, which is none of these agents; they serve %s", c.Name, c.Provisioner,
			e.provisioners())
	}
	return false
}

// madeBeforehand explains a claim of a class without a provisioner, as for raw disks. Its PVs are not
// read: few users may list them.
func (e *explanation) madeBeforehand() {
	c := e.Class.It
	switch {
	case contract.Delayed(c) && !e.Users.Known():
	case contract.Delayed(c) && e.pod() == nil:
		e.add(Cause, "create a pod that uses it",
			"class %s waits for the first pod that uses the claim (%s), and no pod does",
			c.Name, storagev1.VolumeBindingWaitForFirstConsumer)
	default:
		e.add(Cause, "kubectl get pv has those that are Available, and kubectl hpp disks the disks: see docs/raw-disks.md",
			"class %s has no provisioner: its PVs are made beforehand, and none was bound to the claim: one must have the "+
				"size, the volumeMode and a node that the pod may use", c.Name)
	}
}

func (e *explanation) provisioners() string {
	var all []string
	for _, a := range e.Agents.Items {
		all = append(all, a.Provisioners...)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// populated explains a claim that a volume populator fills, and reports whether it is one. Agents
// ignore it: the populator creates a claim of its own, and binds the filled PV to this one.
func (e *explanation) populated() bool {
	if !contract.Populated(&e.Claim) {
		return false
	}
	kind, name := contract.SourceOf(&e.Claim)
	object := fmt.Sprintf("%s %q", kind.Kind, name)
	do := "wait"
	if of := strings.ToLower(kind.Kind) + "." + kind.Group; advice.Pasteable(of) && advice.Pasteable(name) {
		do += fmt.Sprintf("; kubectl -n %s describe %s %s has its state", e.answer.Namespace, of, name)
	}
	do += fmt.Sprintf("; the populator's claim is explained like any other (CDI names it prime-%s)", e.Claim.UID)
	if contract.Delayed(e.Class.It) && e.Users.Known() && e.pod() == nil && e.node() == "" {
		e.add(Note, "create a pod that uses it, if nothing else does",
			"the populator may wait for the first pod that uses the "+
				"claim (%s), and no pod does", storagev1.VolumeBindingWaitForFirstConsumer)
	}
	e.add(Note, do, "%s fills the volume: its populator binds a PV to this claim when it is done, and agents wait for "+
		"that", object)
	return true
}

// supported reports whether the claim and its class ask for what a directory can be.
func (e *explanation) supported() bool {
	again := advice.CreateAgain(&e.Claim, "what the message names")
	c := e.Class.It
	if _, err := contract.ParametersOf(c); err != nil {
		e.add(Cause, "", "%v", err)
		return false
	}
	var err error
	if d := contract.DialectOf(c.Provisioner); d != nil {
		err = d.Check(&e.Claim, c)
	} else {
		err = contract.CheckCSI(&e.Claim)
	}
	if err != nil {
		e.add(Cause, again, "%v", err)
	}
	return err == nil
}

// place explains the node of the claim, or why it has none, and judges the nodes.
func (e *explanation) place() bool {
	c, node := e.Class.It, e.node()
	switch {
	case contract.Copies(&e.Claim, c):
		return e.copied()
	case node != "":
		return e.chosen(node)
	case contract.Delayed(c):
		return e.consumer()
	case e.onlyNode():
		return e.candidates("")
	}
	_, message := nodechoice.NoNode(c)
	e.add(Cause, "", "%s", message)
	e.judgeAll("")
	return false
}

// onlyNode reports whether a claim without a node is that of the cluster's only one.
func (e *explanation) onlyNode() bool {
	d := contract.DialectOf(e.Class.It.Provisioner)
	return d != nil && d.OnlyNode
}

// chosen explains a claim whose node is chosen.
func (e *explanation) chosen(node string) bool {
	if e.nodeNamed(node) != nil || !e.Nodes.Known() {
		return e.candidates(node)
	}
	annotate := fmt.Sprintf("kubectl -n %s annotate pvc %s ", e.answer.Namespace, e.answer.Name)
	if _, by := e.chosenNode(); by == contract.AnnProvisionOnNode {
		e.add(Cause, annotate+"--overwrite "+contract.AnnProvisionOnNode+
			"=NODE, with a node of the table; the claim can stay",
			"the annotation %s names node %q, which does not exist", contract.AnnProvisionOnNode, node)
	} else {
		e.add(Cause, annotate+contract.AnnSelectedNode+"-", "the scheduler chose node %s, which does not exist any more",
			node)
	}
	e.judgeAll("")
	return false
}

// consumer explains a claim that waits for a pod, or whose pod waits for a node.
func (e *explanation) consumer() bool {
	if !e.Users.Known() {
		e.judgeAll("")
		return false
	}
	pod := e.pod()
	if pod == nil {
		do := "create a pod that uses it"
		if e.byAnnotation() {
			do += ", or annotate the claim with " + contract.AnnProvisionOnNode + ": NODE"
		}
		e.add(Cause, do, "class %s waits for the first pod that uses the claim (%s), and no pod does", e.Class.It.Name,
			storagev1.VolumeBindingWaitForFirstConsumer)
		return e.candidates("")
	}
	switch {
	case pod.Spec.NodeName != "":
		e.add(Cause, "leave spec.nodeName out, so that the scheduler places the pod; use a nodeSelector instead",
			"pod %s names its node %s itself, so the scheduler chooses no node for the claim", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		e.add(Cause, "remove the gate", "pod %s has the scheduling gate %q", pod.Name, pod.Spec.SchedulingGates[0].Name)
	default:
		return e.candidates("")
	}
	return false
}
