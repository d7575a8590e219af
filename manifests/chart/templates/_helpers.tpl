{{/* The objects of the manifests' files. Arguments: root, dir (a directory of the manifests), files, labels (a directory whose
kustomization has the labels, dir without it). */}}
{{- define "hpp.objects" -}}
{{- $kustomization := .root.Files.Get (printf "files/%s/kustomization.yaml" (.labels | default .dir)) | fromYaml -}}
{{- $labels := dict -}}
{{- range $kustomization.labels }}{{ $labels = .pairs }}{{ end -}}
{{- range $file := .files }}
{{- $path := printf "files/%s/%s" $.dir $file }}
{{- $text := $.root.Files.Get $path }}
{{- if not $text }}{{ fail (printf "the chart lacks %s" $path) }}{{ end }}
{{- range $document := splitList "\n---\n" $text }}
{{- $object := fromYaml $document }}
{{- if $object.Error }}{{ fail (printf "%s: %s" $path $object.Error) }}{{ end }}
{{- if $object }}
{{ include "hpp.object" (dict "root" $.root "object" $object "labels" $labels) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* One object: with the namespace of the release, the labels, and the changes that the values ask for. */}}
{{- define "hpp.object" -}}
{{- $object := .object }}
{{- $root := .root }}
{{- $metadata := $object.metadata }}
{{- if $metadata.namespace }}{{ $_ := set $metadata "namespace" $root.Release.Namespace }}{{ end }}
{{- $labels := mergeOverwrite (dict) ($metadata.labels | default dict) .labels (dict "app.kubernetes.io/managed-by" $root.Release.Service "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version)) }}
{{- $_ := set $metadata "labels" $labels }}
{{- range $object.subjects }}
{{- if eq .namespace "hostpath-provisioner" }}{{ $_ := set . "namespace" $root.Release.Namespace }}{{ end }}
{{- end }}
{{- if and (hasKey $object "spec") (hasKey $object.spec "paramRef") }}{{ $_ := set $object.spec.paramRef "namespace" $root.Release.Namespace }}{{ end }}
{{- if has $object.kind (list "DaemonSet" "Deployment") }}
{{- $template := $object.spec.template }}
{{- $_ := set $template.metadata "labels" (mergeOverwrite (dict) ($template.metadata.labels | default dict) .labels) }}
{{- include "hpp.workload" (dict "root" $root "object" $object) }}
{{- end }}
{{- if eq $object.kind "CustomResourceDefinition" }}
{{- $_ := set $metadata "annotations" (mergeOverwrite ($metadata.annotations | default dict) (dict "helm.sh/resource-policy" "keep")) }}
{{- end }}
---
{{- $text := toYaml $object }}
{{- if and $root.Values.monitoring.runbooks (eq $object.kind "PrometheusRule") }}
{{- $text = regexReplaceAll "docs/runbooks/(\\w+)\\.md" $text (replace "%s" "${1}" $root.Values.monitoring.runbooks) }}
{{- end }}
{{ $text }}
{{ end }}

{{/* The name of the image. */}}
{{- define "hpp.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* The directory of the kubelet. */}}
{{- define "hpp.kubelet" -}}
{{- $presets := dict "k0s" "/var/lib/k0s/kubelet" "microk8s" "/var/snap/microk8s/common/var/lib/kubelet" }}
{{- .Values.kubelet.directory | default (get $presets .Values.kubelet.preset) | default "/var/lib/kubelet" | trimSuffix "/" }}
{{- end }}

{{/* The directory of hostPath volumes. */}}
{{- define "hpp.pvDir" -}}
{{- $default := get (dict "local-path" "/opt/local-path-provisioner" "single-node" "/var/kubernetes") .Values.form | default "/var/hpvolumes" }}
{{- .Values.pvDir | default $default | trimSuffix "/" }}
{{- end }}

{{/* What the values ask of every workload. It changes the object and prints nothing. */}}
{{- define "hpp.workload" -}}
{{- $values := .root.Values }}
{{- $template := .object.spec.template }}
{{- $pod := $template.spec }}
{{- range $pod.containers }}
{{- $_ := set . "image" (include "hpp.image" $.root) }}
{{- $_ := set . "imagePullPolicy" $values.image.pullPolicy }}
{{- with $values.resources }}{{ $_ := set (index $pod.containers 0) "resources" . }}{{ end }}
{{- end }}
{{- with $values.imagePullSecrets }}{{ $_ := set $pod "imagePullSecrets" . }}{{ end }}
{{- $_ := set $pod "nodeSelector" (mergeOverwrite (dict) ($pod.nodeSelector | default dict) $values.nodeSelector) }}
{{- with $values.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- with $values.affinity }}{{ $_ := set $pod "affinity" . }}{{ end }}
{{- with $values.priorityClassName }}{{ $_ := set $pod "priorityClassName" . }}{{ end }}
{{- with $values.podAnnotations }}{{ $_ := set $template.metadata "annotations" (mergeOverwrite ($template.metadata.annotations | default dict) .) }}{{ end }}
{{- with $values.podLabels }}{{ $_ := set $template.metadata "labels" (mergeOverwrite (dict) . $template.metadata.labels) }}{{ end }}
{{- end }}

{{/* A value as text. Numbers of a file are floats, which Go prints as 1e+07. */}}
{{- define "hpp.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* The directories of the configuration of local-path, as {"paths": []}. */}}
{{- define "hpp.localPaths" -}}
{{- $paths := list }}
{{- $config := fromJson .Values.localPathConfig }}
{{- if hasKey $config "Error" }}{{ fail (printf "localPathConfig: %s" $config.Error) }}{{ end }}
{{- range $config.nodePathMap }}{{ range .paths }}{{ $paths = append $paths (clean .) }}{{ end }}{{ end }}
{{- dict "paths" ($paths | uniq) | toJson }}
{{- end }}

{{/* The directory that the pod mounts for a pool: above a mount point, which must not be one in the pod by the pod's own mount;
and never that of the host's root. Arguments: path, mount. */}}
{{- define "hpp.above" -}}
{{- $path := clean (.mount | default .path) }}
{{- if or .mount (ne (dir $path) "/") }}{{ dir $path }}{{ else }}{{ $path }}{{ end }}
{{- end }}

{{/* Sets variables of the agent's container: those that it has in their place, the others behind them. It changes the container
and prints nothing. Arguments: container, env. */}}
{{- define "hpp.env" -}}
{{- $left := deepCopy .env }}
{{- $all := list }}
{{- range .container.env }}
{{- if hasKey $left .name }}
{{- $all = append $all (dict "name" .name "value" (include "hpp.text" (get $left .name))) }}
{{- $_ := unset $left .name }}
{{- else }}
{{- $all = append $all . }}
{{- end }}
{{- end }}
{{- range $name := keys $left | sortAlpha }}
{{- $all = append $all (dict "name" $name "value" (include "hpp.text" (get $left $name))) }}
{{- end }}
{{- $_ := set .container "env" $all }}
{{- end }}

{{/* Has the pod mount a directory of the host at the same path. It changes the pod and prints nothing. Arguments: pod, name, path. */}}
{{- define "hpp.mount" -}}
{{- $container := index .pod.containers 0 }}
{{- $mounts := list }}
{{- range $container.volumeMounts }}{{ if ne .name $.name }}{{ $mounts = append $mounts . }}{{ end }}{{ end }}
{{- $_ := set $container "volumeMounts" (append $mounts (dict "name" .name "mountPath" .path "mountPropagation" "HostToContainer")) }}
{{- $volumes := list }}
{{- range .pod.volumes }}{{ if ne .name $.name }}{{ $volumes = append $volumes . }}{{ end }}{{ end }}
{{- $_ := set .pod "volumes" (append $volumes (dict "name" .name "hostPath" (dict "path" .path "type" "DirectoryOrCreate"))) }}
{{- end }}
