{{- define "tenon.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "tenon.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tenon.labels" -}}
{{ include "tenon.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "tenon.serviceAccount" -}}
{{- $default := ternary (include "tenon.name" .) "default" .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default $default }}
{{- end }}

{{/* A tenth and 64Mi more than the server takes: folders, and a kubelet that measures seldom. A pod beyond it is evicted. */}}
{{- define "tenon.cacheVolume" -}}
{{- $number := regexFind "^[0-9]+" . | int64 }}
{{- $unit := get (dict "Mi" 1 "Gi" 1024 "Ti" 1048576) (regexFind "[MGT]i$" .) }}
{{- add (div (mul $number $unit 11) 10) 64 }}Mi
{{- end }}

{{- define "tenon.scheme" -}}
{{ if .Values.tls.secret }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* What no schema says: what belongs together. */}}
{{- define "tenon.check" -}}
{{- $v := .Values }}
{{- if not (or $v.folder.claim $v.registry.model) }}{{ fail "nothing to serve: set folder.claim or registry.model" }}{{ end }}
{{- if and $v.folder.claim $v.registry.model }}{{ fail "set folder.claim or registry.model, not both" }}{{ end }}
{{- if and $v.registry.model (not (or $v.registry.claim $v.registry.url)) }}{{ fail "registry.model needs registry.claim or registry.url" }}{{ end }}
{{- if and $v.registry.claim $v.registry.url }}{{ fail "set registry.claim or registry.url, not both" }}{{ end }}
{{- if and $v.registry.select (not (regexMatch "(^|/)@" $v.registry.model)) }}{{ fail "registry.select chooses among the engines at an alias: set registry.model to @ALIAS" }}{{ end }}
{{- if and $v.serviceAccount.annotations (not $v.serviceAccount.create) }}{{ fail "serviceAccount.annotations are of an account that is made here: set serviceAccount.create" }}{{ end }}
{{- if and (not $v.tokens.secret) (not $v.insecure) }}{{ fail "who may ask? Set tokens.secret, or insecure: true where the network keeps others out" }}{{ end }}
{{- if and $v.tokens.secret $v.insecure }}{{ fail "set tokens.secret or insecure, not both" }}{{ end }}
{{- if and $v.autoscaling.enabled (gt (int $v.autoscaling.minReplicas) (int $v.autoscaling.maxReplicas)) }}{{ fail "autoscaling.minReplicas is above autoscaling.maxReplicas" }}{{ end }}
{{- if and $v.serviceMonitor.enabled $v.tokens.secret (not $v.serviceMonitor.tokenSecret.name) }}{{ fail "the server wants tokens: serviceMonitor.tokenSecret names one of the role read" }}{{ end }}
{{- end }}

{{/* The health paths need no token. */}}
{{- define "tenon.probe" -}}
httpGet:
  path: /v2/health/{{ .path }}
  port: http
  scheme: {{ include "tenon.scheme" .root }}
{{- end }}
