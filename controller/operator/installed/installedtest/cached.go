package installedtest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
)

// Cached returns a reader with the PVs of another as the operator's cache has them.
func Cached(r client.Reader) client.Reader { return cached{r, installed.NewSlimPVs()} }

type cached struct {
	client.Reader
	pvs *installed.SlimPVs
}

// Get implements client.Reader.
func (c cached) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Reader.Get(ctx, key, o, opts...)
	if pv, ok := o.(*corev1.PersistentVolume); ok && err == nil {
		*pv = *c.pvs.Slim(pv).DeepCopy()
	}
	return err
}

// List implements client.Reader.
func (c cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Reader.List(ctx, list, opts...)
	if pvs, ok := list.(*corev1.PersistentVolumeList); ok && err == nil {
		for i := range pvs.Items {
			pvs.Items[i] = *c.pvs.Slim(&pvs.Items[i]).DeepCopy()
		}
	}
	return err
}

// CachedClient is Cached for a client, which writes as before.
func CachedClient(c client.Client) client.Client { return cachedClient{c, Cached(c)} }

type cachedClient struct {
	client.Client
	reader client.Reader
}

// Get implements client.Client.
func (c cachedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}

// List implements client.Client.
func (c cachedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}
