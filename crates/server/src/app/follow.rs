//! What is followed while it runs: the rules, and the configuration.

use super::{Origin, Shared};
use crate::config::Settings;
use crate::front::gateway::Gateway;
use crate::reload::{ConfigurationFile, Follower, PutInForce, Reloads, RuleFiles};
use std::sync::Arc;
use tokio::signal::unix::Signal;

/// Follows all files that there are, for ever. Gives back how to have them loaded anew.
pub(super) fn follow(
    settings: &Settings,
    origin: Origin,
    shared: &Shared,
    gateway: Option<Arc<Gateway>>,
    [for_rules, for_configuration]: [Signal; 2],
) -> Reloads {
    let mut reloads = Reloads::default();
    let limiting = &settings.rate_limiting;
    let (service, health) = (&shared.service, &shared.health);
    if let Some(path) = limiting.config_path.clone() {
        let followed = RuleFiles {
            path,
            merge_domains: limiting.merge_domains,
            service: Arc::clone(service),
            health: Arc::clone(health),
        };
        let following = Follower {
            followed,
            loaded: shared.rules,
            interval: limiting.config_reload_interval,
            hangups: for_rules,
            requests: reloads.add("rules"),
        };
        tokio::spawn(following.run());
    }
    if origin.configuration.path.is_some() {
        let put_in_force =
            |gateway: Arc<Gateway>| -> PutInForce { Box::new(move |routing| gateway.put_in_force(routing)) };
        let loaded = Some(origin.loaded.fingerprint);
        let followed = ConfigurationFile {
            configuration: origin.configuration,
            started: origin.loaded,
            gateway: gateway.map(put_in_force),
            service: Arc::clone(service),
            health: Arc::clone(health),
        };
        let following = Follower {
            followed,
            loaded,
            interval: limiting.config_reload_interval,
            hangups: for_configuration,
            requests: reloads.add("configuration"),
        };
        tokio::spawn(following.run());
    }
    reloads
}
