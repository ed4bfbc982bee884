//! `hivemind certs`: a private CA for a mesh, and certificates for its nodes, in one line each.

use crate::mesh::certs::{Authority, Term};
use crate::mesh::name::CertifiedName;
use clap::{Args, Subcommand};
use hivemind_core::{Clock, SystemClock};
use hivemind_tls::at;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Ten years.
const CA_DAYS: u32 = 3_650;
const NODE_DAYS: u32 = 365;
/// A hundred years: dates stay within four digits of a year, and within our clock.
const MOST_DAYS: u32 = 36_500;

/// Make a private CA for a mesh, and certificates for its nodes
#[derive(Args)]
#[command(after_long_help = "Two lines, once and for each node:
  hivemind certs ca --out ca
  hivemind certs node --ca ca --name node-1 --out node-1

Then, in the configuration of that node:
  storage: {kind: mesh}
  mesh:
    bootstrap_peers: [node-2.example.org:7946, node-3.example.org:7946]
    tls: {ca: node-1/ca.crt, cert: node-1/node.crt, key: node-1/node.key}

Peers believe a node that has a certificate of their CA for the name that it gives, and nobody else; there is
no mesh without. A node takes its name from its certificate, unless `mesh.node_id` or MESH_NODE_ID gives
it. Keep ca.key away from the nodes: they need only what is in their own folder. A node follows the
files: to renew a certificate, make it again with --force. docs/guide/mesh.md tells more.")]
pub(super) struct Certs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Ca(Ca),
    Node(Node),
}

/// Make a private CA: ca.crt, which every node needs, and ca.key, which makes certificates
#[derive(Args)]
struct Ca {
    /// The folder to write to; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// For how many days it counts
    #[arg(long, value_name = "NUMBER", default_value_t = CA_DAYS.into(), value_parser = days)]
    days: Days,

    /// Replace a CA that is there; certificates that it made count no more
    #[arg(long)]
    force: bool,
}

/// Make a node's certificate: node.crt and node.key, and a copy of ca.crt beside them
#[derive(Args)]
struct Node {
    /// The folder with ca.crt and ca.key
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,

    /// The node's name, as in node-1 or, for a pod, NAMESPACE/POD. Several are for whichever of them a node is;
    /// '*.NAMESPACE.pod' is for every pod of a namespace
    #[arg(long, value_name = "NAME", required = true, value_parser = CertifiedName::parse)]
    name: Vec<CertifiedName>,

    /// The folder to write to; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// For how many days it counts
    #[arg(long, value_name = "NUMBER", default_value_t = NODE_DAYS.into(), value_parser = days)]
    days: Days,

    /// Replace a certificate that is there, as to renew it
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
            What::Ca(ca) => ca.run(),
            What::Node(node) => node.run(),
        }
    }
}

impl Ca {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let term = Term { now: SystemClock.now(), days: self.days.0 };
        Authority::make(&self.out, term, self.force)?;
        let mut out = std::io::stdout().lock();
        let folder = self.out.display();
        written(&mut out, &self.out, "ca.crt", "the CA; every node needs it")?;
        written(
            &mut out,
            &self.out,
            "ca.key",
            "makes certificates; keep it where no node and nobody else reads it",
        )?;
        writeln!(out, "\nFor each node:\n\n  hivemind certs node --ca {folder} --name NAME --out NAME")?;
        Ok(ExitCode::SUCCESS)
    }
}

impl Node {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let now = SystemClock.now();
        let authority = Authority::open(&self.ca, now)?;
        let issued = authority.issue(&self.name, &self.out, Term { now, days: self.days.0 }, self.force)?;
        let mut out = std::io::stdout().lock();
        let folder = self.out.display();
        let names: Vec<&str> = self.name.iter().map(CertifiedName::as_str).collect();
        let until = format!("for {}; it ends {}", names.join(", "), at(issued.ends));
        written(&mut out, &self.out, "node.crt", &until)?;
        written(&mut out, &self.out, "node.key", "its key; for that node alone")?;
        if issued.keeps_ca {
            let what = "another CA's, and left as it was; add this CA's to it, or no peer is believed";
            written(&mut out, &self.out, "ca.crt", what)?;
        } else {
            written(&mut out, &self.out, "ca.crt", "whom it believes")?;
        }
        if issued.is_cut {
            writeln!(out, "\nIt ends with its CA, before the {} days that were asked for.", self.days)?;
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
