package nodeinfo

import (
	"context"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kubevirt.io/hostpath-provisioner/controller/kube/contract"
)

// hostnames has the node's former hostnames that the administrator lists, and when they were read.
type hostnames struct {
	former []string
	at     time.Time
}

// Former returns the former hostnames that the administrator lists, as ReadFormer read them last.
func (i *Info) Former() []string {
	if read := i.hostnames.Load(); read != nil {
		return read.former
	}
	return nil
}

// ReadFormer reads the node's former hostnames from the administrator's ConfigMap, unless they were
// read within maxAge. There are none if the ConfigMap does not exist or the agent may not read it.
// After another error the previous ones stay.
func (i *Info) ReadFormer(ctx context.Context, maxAge time.Duration) {
	if read := i.hostnames.Load(); read != nil && time.Since(read.at) < maxAge {
		return
	}
	configMaps := i.client.CoreV1().ConfigMaps(contract.HostnamesNamespace)
	listed, err := configMaps.Get(ctx, contract.HostnamesConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		i.hostnames.Store(&hostnames{at: time.Now()})
	case err != nil:
		klog.FromContext(ctx).V(2).Info("Cannot read the former hostnames of the node", "err", err)
	default:
		i.hostnames.Store(&hostnames{former: formerOf(listed.Data[i.name]), at: time.Now()})
	}
}

// formerOf returns the former hostnames in "<present>,<former>,...". The present one is ignored:
// the Node's label has it.
func formerOf(text string) (former []string) {
	all := strings.Split(text, ",")
	for _, name := range all[1:] {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(former, name) {
			former = append(former, name)
		}
	}
	return former
}
