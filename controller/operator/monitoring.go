package operator

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kubevirt.io/hostpath-provisioner/api/v1beta1"
	"kubevirt.io/hostpath-provisioner/controller/operator/admission"
	"kubevirt.io/hostpath-provisioner/controller/operator/agentstatus"
	"kubevirt.io/hostpath-provisioner/controller/operator/apply"
	"kubevirt.io/hostpath-provisioner/controller/operator/installed"
	"kubevirt.io/hostpath-provisioner/controller/operator/metrics"
	"kubevirt.io/hostpath-provisioner/controller/operator/metricsauth"
	"kubevirt.io/hostpath-provisioner/controller/operator/optional"
	"kubevirt.io/hostpath-provisioner/manifests/monitoring"
)

// keepMonitoring exports metrics of the resource, and keeps the monitoring objects while the
// cluster has the Prometheus operator.
func (r *wiring) keepMonitoring(mgr ctrl.Manager, outside Outside) error {
	if err := outside.register(metrics.Collector{Elected: mgr.Elected(), Read: r.state}); err != nil {
		return err
	}
	objects, err := r.monitored(&v1beta1.HostPathProvisioner{})
	if err != nil {
		return err
	}
	keeper := &optional.Reconciler{Manager: mgr, Namespace: r.Settings.Namespace, Owner: &v1beta1.HostPathProvisioner{},
		API: schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"},
		Apply: func(ctx context.Context, through client.Client) error {
			return r.applyOptional(ctx, through, func(cr *v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error) {
				objects, err := r.monitored(cr)
				if err != nil {
					return nil, err
				}
				return objects, r.authorize(ctx, cr, objects)
			})
		}}
	for _, o := range objects {
		if kind := o.GroupVersionKind(); !slices.Contains(keeper.Kinds, kind) {
			keeper.Kinds = append(keeper.Kinds, kind)
		}
	}
	return mgr.Add(keeper)
}

func (r *wiring) state(ctx context.Context) (s metrics.State, err error) {
	cr, err := installed.Served(ctx, r.Client)
	if err != nil || cr.UID == "" {
		return s, err
	}
	observed, err := r.Observe(ctx)
	if err != nil {
		return s, err
	}
	a := agentstatus.Of(observed)
	expires, err := admission.Expires(ctx, r.Client, r.Settings.Namespace)
	return metrics.State{Status: &cr.Status, Desired: a.Desired, Ready: a.Ready, Expires: expires}, err
}

// applyOptional applies what differs of the wanted objects through the client, for the resource
// that is served. It does nothing without such a resource, for one that is deleted, whose objects
// go with it, and beside another installation.
func (r *wiring) applyOptional(ctx context.Context, through client.Client,
	wanted func(*v1beta1.HostPathProvisioner) ([]*unstructured.Unstructured, error)) error {
	cr, err := installed.Served(ctx, r.Client)
	if err != nil || cr.UID == "" || cr.DeletionTimestamp != nil {
		return err
	}
	if namespace, err := r.installed.Other(ctx); namespace != "" || err != nil {
		return err
	}
	objects, err := wanted(cr)
	if err != nil {
		return err
	}
	err = r.Applier.Through(through).Apply(ctx, cr, objects...)
	if apierrors.IsConflict(err) { // the cache is behind; what changed comes as an event
		return nil
	}
	return err
}

// authorize has the ServiceMonitor send the token of the account that may read the metrics, while a client
// needs one and once the account has one. Prometheus leaves out a ServiceMonitor whose Secret has none.
func (r *wiring) authorize(ctx context.Context, cr *v1beta1.HostPathProvisioner,
	objects []*unstructured.Unstructured) error {
	needed, err := r.NeedsTokens(ctx, cr)
	if err != nil || !needed {
		return err
	}
	if has, err := r.Reader().HasToken(ctx); err != nil || !has {
		return err
	}
	for _, o := range objects {
		endpoints, found, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints")
		if !found {
			continue
		}
		for _, endpoint := range endpoints {
			endpoint.(map[string]any)["authorization"] = map[string]any{"credentials": map[string]any{
				"name": metricsauth.Name, "key": metricsauth.TokenKey}}
		}
		if err := unstructured.SetNestedSlice(o.Object, endpoints, "spec", "endpoints"); err != nil {
			return err
		}
	}
	return nil
}

// monitored returns the objects with which Prometheus finds the operator and the agents, and its
// rules, in the order in which they are applied.
func (s Settings) monitored(cr *v1beta1.HostPathProvisioner) (all []*unstructured.Unstructured, err error) {
	for _, text := range []string{monitoring.RBAC, monitoring.Service, monitoring.ServiceMonitor,
		monitoring.PrometheusRule} {
		for document := range bytes.SplitSeq([]byte(text), []byte("\n---\n")) {
			o, err := apply.Parse(document)
			if err != nil {
				return nil, fmt.Errorf("read the monitoring objects: %w", err)
			}
			if o.GetKind() == "PrometheusRule" {
				if err := s.rules(o); err != nil {
					return nil, err
				}
			}
			s.installation().Own(o, cr)
			if subjects, found, _ := unstructured.NestedSlice(o.Object, "subjects"); found { // the account of Prometheus
				subjects[0].(map[string]any)["namespace"] = s.Monitoring
				o.Object["subjects"] = subjects
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// rules adds the operator's rules to the agents', with its namespace and the pages that
// RUNBOOK_URL_TEMPLATE names.
func (s Settings) rules(o *unstructured.Unstructured) error {
	text := strings.ReplaceAll(monitoring.OperatorRules, "namespace='"+monitoring.Namespace+"'",
		"namespace='"+s.Namespace+"'")
	var more map[string][]any
	if err := yaml.Unmarshal([]byte(text), &more); err != nil {
		return fmt.Errorf("read the operator's rules: %w", err)
	}
	groups, _, _ := unstructured.NestedSlice(o.Object, "spec", "groups")
	groups = append(groups, more["groups"]...)
	for _, g := range groups {
		for _, r := range g.(map[string]any)["rules"].([]any) {
			rule := r.(map[string]any)
			if annotations, ok := rule["annotations"].(map[string]any); ok && s.Runbooks != "" {
				annotations["runbook_url"] = strings.Replace(s.Runbooks, "%s", rule["alert"].(string), 1)
			}
		}
	}
	return unstructured.SetNestedSlice(o.Object, groups, "spec", "groups")
}
