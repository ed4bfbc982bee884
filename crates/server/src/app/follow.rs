//! File followers: rules, configuration, keys and certificates, reloaded while the service runs.

use super::gateway::GatewayHandles;
use super::{SettingsSource, SharedComponents};
use crate::reload::{
    ApplyRouting, ConfigurationFile, Follower, KeyFiles, LOOKS_EVERY, RuleFiles, ServerTlsFiles,
};
use crate::settings::Settings;
use hivemind_admin::{ReloadRequest, Reloads};
use hivemind_gateway::Gateway;
use hivemind_tls::{ServerCertificates, TrustStores};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Follows all configured files until the process ends. Returns the handle that reloads them.
pub(super) fn follow(
    settings: &Settings,
    origin: SettingsSource,
    shared: &SharedComponents,
    gateway: Option<GatewayHandles>,
) -> Reloads {
    let mut reloads = Reloads::default();
    let (gateway, certificates) = gateway.map(|of| (of.gateway, of.certificates)).unzip();
    if gateway.is_some() || !shared.port_access.ports().is_empty() {
        let asked = reloads.add("certificates");
        let trust = gateway.as_ref().map_or_else(Arc::default, |gateway| Arc::clone(gateway.trust()));
        follow_tls(settings, shared, trust, certificates.flatten(), asked);
    }
    if shared.port_access.access.is_asked_for() {
        follow_keys(shared, reloads.add("keys"));
    }
    if let Some(path) = settings.rate_limiting.config_path.clone() {
        follow_rules(settings, shared, path, reloads.add("rules"));
    }
    if origin.configuration.path.is_some() {
        follow_configuration(settings, origin, shared, gateway, reloads.add("configuration"));
    }
    reloads
}

fn follow_rules(
    settings: &Settings,
    shared: &SharedComponents,
    path: PathBuf,
    requests: mpsc::Receiver<ReloadRequest>,
) {
    let limiting = &settings.rate_limiting;
    let followed = RuleFiles {
        path,
        merge_domains: limiting.merge_domains,
        mesh: shared.mesh.clone(),
        service: Arc::clone(&shared.service),
        health: Arc::clone(&shared.health),
    };
    let (loaded, interval) = (shared.rules, limiting.config_reload_interval);
    tokio::spawn(Follower { followed, loaded, interval, requests }.run());
}

fn follow_configuration(
    settings: &Settings,
    origin: SettingsSource,
    shared: &SharedComponents,
    gateway: Option<Arc<Gateway>>,
    requests: mpsc::Receiver<ReloadRequest>,
) {
    let mesh = shared.mesh.clone();
    let apply_routing = |gateway: Arc<Gateway>| -> ApplyRouting {
        Box::new(move |routing| {
            gateway.apply(routing)?;
            if let Some(mesh) = &mesh {
                mesh.gateway_is(routing.limits_text());
            }
            Ok(())
        })
    };
    let loaded = Some(origin.loaded.fingerprint);
    let followed = ConfigurationFile {
        configuration: origin.configuration,
        seen: origin.loaded.value_hashes.clone(),
        started: origin.loaded,
        log: Arc::clone(&shared.log),
        gateway: gateway.map(apply_routing),
        service: Arc::clone(&shared.service),
        health: Arc::clone(&shared.health),
    };
    let interval = settings.rate_limiting.config_reload_interval;
    tokio::spawn(Follower { followed, loaded, interval, requests }.run());
}

/// Follows certificates and the CAs of upstreams: also if there are none yet, because a reload may add some.
fn follow_tls(
    settings: &Settings,
    shared: &SharedComponents,
    trust: Arc<TrustStores>,
    certificates: Option<Arc<ServerCertificates>>,
    requests: mpsc::Receiver<ReloadRequest>,
) {
    let (service, health) = (Arc::clone(&shared.service), Arc::clone(&shared.health));
    let followed = ServerTlsFiles::new(certificates, shared.port_access.ports(), trust, service, health);
    // The files may have changed since they were loaded a moment ago, so the first look loads them again and reports
    // those that are invalid.
    let loaded = None;
    let interval = settings.rate_limiting.config_reload_interval;
    tokio::spawn(Follower { followed, loaded, interval, requests }.run());
}

/// Follows keys and tokens, also if nothing else is checked that often.
fn follow_keys(shared: &SharedComponents, requests: mpsc::Receiver<ReloadRequest>) {
    let (service, health) = (Arc::clone(&shared.service), Arc::clone(&shared.health));
    let followed = KeyFiles::new(shared.port_access.access.clone(), service, health);
    tokio::spawn(Follower { followed, loaded: None, interval: LOOKS_EVERY, requests }.run());
}
