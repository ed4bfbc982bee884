"""Environment of a soak run: limits, rules, Envoy configuration, the upstream app and ports."""
import http.server
import socket

PERIOD, LIMIT = 5, 200  # The shared limit: seconds of its window, and hits.
RATE, BURST = 20, 20  # The gateway limit per client.
RULES = """domain: soak
descriptors:
  - key: user
    value: hot
    rate_limit: {unit: second, unit_multiplier: %d, requests_per_unit: %d}
  - key: user
    rate_limit: {algorithm: token_bucket, unit: second, requests_per_unit: 50, burst: 50}
  # Changes with each reload.
  - key: load
    value: "%d"
    rate_limit: {unit: hour, requests_per_unit: %d}
"""
# Wildcards that every value of a domain is compared with.
PATTERNS = 1000
PATTERN_RULES = "domain: patterns\ndescriptors:\n" + "".join(
    f'  - {{key: path, value: "*v{number}*", rate_limit: {{unit: minute, requests_per_unit: 5}}}}\n' for number in range(PATTERNS))
ENVOY = """static_resources:
  listeners:
    - address: {socket_address: {address: 127.0.0.1, port_value: %(port)d}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: ingress
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes: [{match: {prefix: /}, route: {cluster: app}}]
                      rate_limits: [{actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]}]
                http_filters:
                  - name: envoy.filters.http.ratelimit
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
                      domain: soak
                      # A failed call is an error and does not pass uncounted.
                      failure_mode_deny: true
                      timeout: 2s
                      rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: hivemind}}}
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
    - name: app
      load_assignment:
        cluster_name: app
        endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %(app)d}}}}]}]
    - name: hivemind
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {http2_protocol_options: {}}
      load_assignment:
        cluster_name: hivemind
        endpoints: [{lb_endpoints: [%(endpoints)s]}]
      outlier_detection: {consecutive_5xx: 1, interval: 0.5s, base_ejection_time: 1s, max_ejection_percent: 50}
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
"""


class Upstream(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Requests of hostile clients end in the middle."""

    def close(self):
        self.shutdown()
        self.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.do_GET()

    def log_message(self, *_):
        pass


def free_ports(number):
    held = [socket.socket() for _ in range(number)]
    for each in held:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
