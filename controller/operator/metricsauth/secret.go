package metricsauth

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
)

// TokenKey is the key of the Secret with the token.
const TokenKey = corev1.ServiceAccountTokenKey

// secret reads the Secret from the API server, nil if there is none. ours is whether it is the operator's,
// with the token of this account: that of another may allow more.
func (r Reader) secret(ctx context.Context) (have *corev1.Secret, ours bool, err error) {
	have = &corev1.Secret{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: Name}, have)
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read Secret %s: %w", Name, err)
	}
	return have, have.Labels[apply.ManagedBy] == apply.Owner && have.Type == corev1.SecretTypeServiceAccountToken &&
		have.Annotations[corev1.ServiceAccountNameKey] == Name, nil
}

// ensureSecret creates the Secret unless it is there. Kubernetes puts the account's token into it, and
// deletes it when the account is deleted. A Secret of that name that another made is an error.
func (r Reader) ensureSecret(ctx context.Context, cr *v1beta1.HostPathProvisioner) error {
	have, ours, err := r.secret(ctx)
	switch {
	case err != nil || ours:
		return err
	case have != nil:
		return fmt.Errorf("Secret %s in namespace %s is not the one that the operator makes for metrics: give it another "+
			"name", Name, r.Namespace)
	}
	err = r.Client.Create(ctx, &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken,
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: Name, Labels: r.Labels(),
			Annotations: map[string]string{corev1.ServiceAccountNameKey: Name}, OwnerReferences: apply.OwnedBy(cr)}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Secret %s: %w", Name, err)
	}
	return nil
}

// HasToken reports whether the Secret has the account's token.
func (r Reader) HasToken(ctx context.Context) (bool, error) {
	have, ours, err := r.secret(ctx)
	return ours && have.DeletionTimestamp == nil && len(have.Data[TokenKey]) > 0, err
}

func (r Reader) removeSecret(ctx context.Context) error {
	have, ours, err := r.secret(ctx)
	if err != nil || !ours {
		return err
	}
	err = r.Client.Delete(ctx, have, client.Preconditions{UID: new(have.UID)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Secret %s: %w", Name, err)
	}
	return nil
}
