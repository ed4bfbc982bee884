//! Shared code of the gateway tests: the gateway, real upstreams and real clients.

mod certificates;
mod echo;
mod gateway;
mod message;
mod nginx;
mod programs;
mod raw;
mod recorder;
mod wire;

pub(crate) use certificates::{Authority, tls_client};
pub(crate) use echo::Echo;
pub(crate) use gateway::{Gateway, Setup, request, url};
pub(crate) use hivemind_testkit::browser::Browser;
pub(crate) use message::Message;
pub(crate) use nginx::Nginx;
pub(crate) use programs::{Process, is_long, run};
pub(crate) use raw::{OK, Raw};
pub(crate) use recorder::Recorder;
pub(crate) use wire::Wire;
