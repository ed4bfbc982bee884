//! `hivemind certs`: a private CA for a mesh, and certificates for its nodes.

use clap::{Args, Subcommand};
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::mesh::certs::{CertificateAuthority, Term};
use hivemind_engine::mesh::name::CertifiedName;
use hivemind_tls::format_time;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ten years.
const CA_DAYS: u32 = 3_650;
const NODE_DAYS: u32 = 365;
/// A hundred years: keeps the year at four digits and the time within our clock's range.
const MOST_DAYS: u32 = 36_500;

/// Create a private CA for a mesh, and certificates for its nodes
#[derive(Args)]
#[command(after_long_help = "Create the CA once, then one certificate for each node:
  hivemind certs ca --out ca
  hivemind certs node --ca ca --name node-1 --out node-1

Then, in the configuration of that node:
  storage: {kind: mesh}
  mesh:
    bootstrap_peers: [node-2.example.org:7946, node-3.example.org:7946]
    tls: {ca: node-1/ca.crt, cert: node-1/node.crt, key: node-1/node.key}

Peers accept a node only with a certificate of their CA for the name that the node presents; there is
no mesh without TLS. A node takes its name from its certificate, unless `mesh.node_id` or
MESH_NODE_ID sets it. Keep ca.key away from the nodes: they need only the files in their own folder.
A node follows these files: to renew a certificate, create it again with --force.
See docs/guide/mesh.md.")]
pub(super) struct Certs {
    #[command(subcommand)]
    what: CertsCommand,
}

#[derive(Subcommand)]
enum CertsCommand {
    Ca(CaArgs),
    Node(NodeArgs),
}

/// Create a private CA: ca.crt, which every node needs, and ca.key, which signs certificates
#[derive(Args)]
struct CaArgs {
    /// The folder to write to; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Validity in days
    #[arg(long, value_name = "NUMBER", default_value_t = CA_DAYS.into(), value_parser = days)]
    days: Days,

    /// Replace an existing CA; certificates that it signed become invalid
    #[arg(long)]
    force: bool,
}

/// Create a node's certificate: node.crt and node.key, and a copy of ca.crt
#[derive(Args)]
struct NodeArgs {
    /// The folder with ca.crt and ca.key
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,

    /// The node's name, such as node-1, or NAMESPACE/POD for a pod. Repeat it for a certificate that is valid for
    /// several names; '*.NAMESPACE.pod' is valid for every pod of a namespace
    #[arg(long, value_name = "NAME", required = true, value_parser = CertifiedName::parse)]
    name: Vec<CertifiedName>,

    /// The folder to write to; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Validity in days
    #[arg(long, value_name = "NUMBER", default_value_t = NODE_DAYS.into(), value_parser = days)]
    days: Days,

    /// Replace an existing certificate, for example to renew it
    #[arg(long)]
    force: bool,
}

/// A number of days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Days(u32);

impl From<u32> for Days {
    fn from(days: u32) -> Self {
        Self(days)
    }
}

impl std::fmt::Display for Days {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn days(text: &str) -> Result<Days, String> {
    let days: Option<NonZeroU32> = text.parse().ok();
    let days = days.map(NonZeroU32::get).filter(|days| *days <= MOST_DAYS);
    days.map(Days).ok_or_else(|| format!("write a whole number of days from 1 to {MOST_DAYS}"))
}

impl Certs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.what {
            CertsCommand::Ca(ca) => ca.run(),
            CertsCommand::Node(node) => node.run(),
        }
    }
}

impl CaArgs {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let term = Term { now: SystemClock.now(), days: self.days.0 };
        CertificateAuthority::make(&self.out, term, self.force)?;
        let mut out = std::io::stdout().lock();
        let folder = self.out.display();
        written(&mut out, &self.out, "ca.crt", "the CA; every node needs it")?;
        written(
            &mut out,
            &self.out,
            "ca.key",
            "signs certificates; keep it private, and away from the nodes",
        )?;
        writeln!(out, "\nFor each node:\n\n  hivemind certs node --ca {folder} --name NAME --out NAME")?;
        Ok(ExitCode::SUCCESS)
    }
}

impl NodeArgs {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let now = SystemClock.now();
        let authority = CertificateAuthority::open(&self.ca, now)?;
        let issued = authority.issue(&self.name, &self.out, Term { now, days: self.days.0 }, self.force)?;
        let mut out = std::io::stdout().lock();
        let folder = self.out.display();
        let names: Vec<&str> = self.name.iter().map(CertifiedName::as_str).collect();
        let until = format!("for {}; valid until {}", names.join(", "), format_time(issued.ends));
        written(&mut out, &self.out, "node.crt", &until)?;
        written(&mut out, &self.out, "node.key", "its private key; only this node needs it")?;
        if issued.keeps_ca {
            let what = "belongs to another CA and was not changed; add this CA's certificate to it, or peers are rejected";
            written(&mut out, &self.out, "ca.crt", what)?;
        } else {
            written(&mut out, &self.out, "ca.crt", "the CA that peers must have")?;
        }
        if issued.is_cut {
            writeln!(out, "\nIt expires with its CA, before the requested {} days.", self.days)?;
        }
        writeln!(out, "\nIn its configuration:\n\n  storage: {{kind: mesh}}\n  mesh:")?;
        writeln!(out, "    bootstrap_peers: [ANOTHER-NODE:7946]")?;
        let tls = format!("ca: {folder}/ca.crt, cert: {folder}/node.crt, key: {folder}/node.key");
        writeln!(out, "    tls: {{{tls}}}")?;
        Ok(ExitCode::SUCCESS)
    }
}

fn written(out: &mut impl Write, folder: &Path, file: &str, what: &str) -> std::io::Result<()> {
    writeln!(out, "{}  {what}", folder.join(file).display())
}
