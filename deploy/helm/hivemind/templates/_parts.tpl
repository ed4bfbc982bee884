{{- define "hivemind.name" -}}
{{- if contains "hivemind" .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-hivemind" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "hivemind.selector" -}}
app.kubernetes.io/name: hivemind
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hivemind.labels" -}}
{{ include "hivemind.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* Members of the mesh: of this release, and of this cluster id. */}}
{{- define "hivemind.members" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
hivemind-mesh: {{ .Values.mesh.clusterId | quote }}
{{- end -}}

{{- define "hivemind.preset" -}}
{{- $presets := dict
  "small" (dict "cpu" "100m" "request" "128Mi" "memory" "128Mi" "workers" 1 "keys" 40000)
  "recommended" (dict "cpu" "250m" "request" "256Mi" "memory" "512Mi" "workers" 1 "keys" 300000)
  "high" (dict "cpu" "1000m" "request" "1Gi" "memory" "2Gi" "workers" 2 "keys" 1400000) -}}
{{- get $presets .Values.preset | toYaml -}}
{{- end -}}

{{/* Something, unless `config` turns metrics off: as a word, or as the flag that Helm makes of it. */}}
{{- define "hivemind.metrics" -}}
{{- if not (has (toString (get (.Values.config.server | default dict) "metrics_port")) (list "false" "off" "no")) -}}on{{- end -}}
{{- end -}}

{{/* Folders of secrets below /etc/hivemind: whose it is, and which of its files are taken. An empty name is none. */}}
{{- define "hivemind.secrets" -}}
{{- $secrets := .Values.secrets -}}
{{- dict
  "mesh" (dict "of" (ternary .Values.mesh.secret "" .Values.mesh.enabled) "files" (list "ca.crt" "node.crt" "node.key"))
  "admin" (dict "of" $secrets.adminToken "files" (list "token"))
  "keys" (dict "of" $secrets.apiKeys "files" (list "keys"))
  "seed" (dict "of" $secrets.keySeed "files" (list "seed"))
  "tls" (dict "of" $secrets.grpcTls "files" (list "tls.crt" "tls.key"))
  "callers" (dict "of" $secrets.grpcClientCa "files" (list "ca.crt"))
  "metrics" (dict "of" $secrets.metricsTls "files" (list "tls.crt" "tls.key"))
  "scrapers" (dict "of" $secrets.metricsClientCa "files" (list "ca.crt"))
  "gateway" (dict "of" $secrets.gatewayTls "files" (list "tls.crt" "tls.key"))
  "redis" (dict "of" $secrets.redisPassword "files" (list "password"))
  "sentinel" (dict "of" $secrets.redisSentinelPassword "files" (list "password"))
  "redis-ca" (dict "of" $secrets.redisCa "files" (list "ca.crt"))
  "redis-tls" (dict "of" $secrets.redisTls "files" (list "tls.crt" "tls.key")) | toYaml -}}
{{- end -}}

{{/* The configuration: what the chart needs, and over it what `config` says. */}}
{{- define "hivemind.config" -}}
{{- $preset := include "hivemind.preset" . | fromYaml -}}
{{- $config := dict
  "server" (dict "host" "0.0.0.0" "workers" (int $preset.workers) "shutdown_grace" (printf "%ds" (int .Values.shutdownGraceSeconds)))
  "rate_limiting" (dict "config_path" "/etc/hivemind/rules" "max_keys" (int $preset.keys))
  "storage" (dict "kind" (ternary "mesh" "memory" .Values.mesh.enabled)) -}}
{{- if .Values.mesh.enabled -}}
{{- $tls := dict "ca" "/etc/hivemind/mesh/ca.crt" "cert" "/etc/hivemind/mesh/node.crt" "key" "/etc/hivemind/mesh/node.key" -}}
{{- $_ := set $config "mesh" (dict "cluster_id" .Values.mesh.clusterId "dns" (printf "%s-mesh" (include "hivemind.name" .)) "tls" $tls) -}}
{{- end -}}
{{- if .Values.config.gateway -}}
{{- $gateway := dict "listen" "0.0.0.0:10080" -}}
{{- if .Values.secrets.gatewayTls -}}
{{- $_ := set $gateway "tls" (dict "cert" "/etc/hivemind/gateway/tls.crt" "key" "/etc/hivemind/gateway/tls.key") -}}
{{- end -}}
{{- $_ := set $config "gateway" $gateway -}}
{{- end -}}
{{- $redis := dict -}}
{{- if .Values.secrets.redisPassword -}}
{{- $_ := set $redis "password_file" "/etc/hivemind/redis/password" -}}
{{- end -}}
{{- if .Values.secrets.redisSentinelPassword -}}
{{- $_ := set $redis "sentinel_password_file" "/etc/hivemind/sentinel/password" -}}
{{- end -}}
{{- $tls := dict -}}
{{- if .Values.secrets.redisCa -}}
{{- $_ := set $tls "ca" "/etc/hivemind/redis-ca/ca.crt" -}}
{{- end -}}
{{- if .Values.secrets.redisTls -}}
{{- $_ := set $tls "cert" "/etc/hivemind/redis-tls/tls.crt" -}}
{{- $_ := set $tls "key" "/etc/hivemind/redis-tls/tls.key" -}}
{{- end -}}
{{- if $tls -}}
{{- $_ := set $redis "tls" $tls -}}
{{- end -}}
{{- if $redis -}}
{{- $_ := set $config.storage "redis" $redis -}}
{{- end -}}
{{- $security := dict -}}
{{- if .Values.secrets.adminToken -}}
{{- $_ := set $security "admin" (dict "token_file" "/etc/hivemind/admin/token") -}}
{{- end -}}
{{- if .Values.secrets.apiKeys -}}
{{- $_ := set $security "api_keys_file" "/etc/hivemind/keys/keys" -}}
{{- end -}}
{{- if .Values.secrets.keySeed -}}
{{- $_ := set $security "key_seed_file" "/etc/hivemind/seed/seed" -}}
{{- end -}}
{{- if .Values.secrets.metricsTls -}}
{{- $tls := dict "cert" "/etc/hivemind/metrics/tls.crt" "key" "/etc/hivemind/metrics/tls.key" -}}
{{- if .Values.secrets.metricsClientCa -}}
{{- $_ := set $tls "client_ca" "/etc/hivemind/scrapers/ca.crt" -}}
{{- end -}}
{{- $_ := set $security "metrics_tls" $tls -}}
{{- end -}}
{{- if .Values.secrets.grpcTls -}}
{{- $tls := dict "cert" "/etc/hivemind/tls/tls.crt" "key" "/etc/hivemind/tls/tls.key" -}}
{{- if .Values.secrets.grpcClientCa -}}
{{- $_ := set $tls "client_ca" "/etc/hivemind/callers/ca.crt" -}}
{{- end -}}
{{- $_ := set $security "grpc_tls" $tls -}}
{{- end -}}
{{- if $security -}}
{{- $_ := set $config "security" $security -}}
{{- end -}}
{{- mergeOverwrite $config (deepCopy .Values.config) | toYaml -}}
{{- end -}}
