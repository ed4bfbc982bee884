//! A network of namespaces: a switch in one, and a node in each of the others. Traffic over the switch can be
//! cut and dropped, for all of them atomically.
//!
//! A namespace lives as long as the process that holds it, which ends when its standard input closes:
//! nothing is left behind, however the test ends.

use hivemind_testkit::within;
use std::fmt::Write as _;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// A program in a folder that Debian has only in root's path.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).kill_on_drop(true);
    command
}

pub(crate) struct Namespace {
    holder: Child,
    _open: ChildStdin,
}

impl Namespace {
    /// None if it is not permitted.
    async fn new() -> Option<Self> {
        let mut unshare = command("unshare");
        unshare.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut holder = unshare.spawn().expect("unshare is part of every Debian");
        let mut open = holder.stdin.take().unwrap();
        let mut echoed = BufReader::new(holder.stdout.take().unwrap()).lines();
        let _ = open.write_all(b"there\n").await;
        let there = within("a namespace", echoed.next_line()).await.ok().flatten()?;
        assert_eq!(there, "there");
        Some(Self { holder, _open: open })
    }

    fn process(&self) -> String {
        self.holder.id().expect("the holder runs").to_string()
    }

    /// A command inside the namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut nsenter = command("nsenter");
        nsenter.args(["--net", "--target", &self.process(), program]);
        nsenter
    }

    /// Runs a program inside the namespace with a standard input; it must succeed.
    async fn run(&self, program: &str, arguments: &[&str], text: &str) {
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).await.unwrap();
        let output = within(program, child.wait_with_output()).await.unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{program} refused {text}: {error}");
    }

    /// The output of a program inside the namespace.
    pub(crate) async fn output_of(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = self.command(program);
        command.args(arguments).stdin(Stdio::null());
        let output = within(program, command.output()).await.unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The traffic that the switch drops.
#[derive(Clone, Debug)]
pub(crate) enum Drop {
    /// From these nodes to those, but not in the other direction.
    OneWay(Vec<usize>, Vec<usize>),
    /// This percentage of packets, between any two nodes.
    Percent(u32),
    /// Datagrams, so that only TCP is left.
    Udp,
}

pub(crate) struct Network {
    switch: Namespace,
    members: Vec<Namespace>,
}

impl Network {
    /// A network with `count` members. None if namespaces are not available and may be missing.
    pub(crate) async fn start(count: usize) -> Option<Self> {
        let Some(switch) = Namespace::new().await else {
            assert!(
                hivemind_testkit::may_be_missing(),
                "no network namespace can be made; run the tests as root"
            );
            println!("skipped: no network namespace can be made; run the tests as root");
            return None;
        };
        let mut members = Vec::new();
        let mut lines = "link add switch type bridge\nlink set switch up\n".to_owned();
        for index in 0..count {
            let member = Namespace::new().await.expect("another namespace");
            let process = member.process();
            let _ = writeln!(lines, "link add port{index} type veth peer name eth0 netns {process}");
            let _ = writeln!(lines, "link set port{index} master switch up");
            members.push(member);
        }
        switch.run("ip", &["-batch", "-"], &lines).await;
        for (index, member) in members.iter().enumerate() {
            let address = Self::address(index);
            let lines = format!("addr add {address}/24 dev eth0\nlink set eth0 up\nlink set lo up\n");
            member.run("ip", &["-batch", "-"], &lines).await;
        }
        Some(Self { switch, members })
    }

    /// The address of a member. It exists only in these namespaces, so all networks can use the same.
    pub(crate) fn address(index: usize) -> String {
        format!("192.0.2.{}", index + 1)
    }

    pub(crate) fn member(&self, index: usize) -> &Namespace {
        &self.members[index]
    }

    /// Drops exactly this traffic and nothing else.
    pub(crate) async fn set_drops(&self, drops: &[Drop]) {
        let mut text = "flush ruleset\ntable bridge drops {\nchain passing {\n".to_owned();
        text += "type filter hook forward priority 0\n";
        let set = |of: &[usize]| of.iter().map(|&index| Self::address(index)).collect::<Vec<_>>().join(", ");
        for drop in drops {
            match drop {
                Drop::OneWay(from, to) => {
                    let _ = writeln!(text, "ip saddr {{ {} }} ip daddr {{ {} }} drop", set(from), set(to));
                }
                Drop::Percent(percent) => {
                    let _ = writeln!(text, "meta protocol ip numgen random mod 100 < {percent} drop");
                }
                Drop::Udp => text += "ip protocol udp drop\n",
            }
        }
        self.switch.run("nft", &["-f", "-"], &(text + "}\n}\n")).await;
    }

    /// Cuts the network in two.
    pub(crate) async fn cut(&self, ones: &[usize], others: &[usize]) {
        let (ones, others) = (ones.to_vec(), others.to_vec());
        self.set_drops(&[Drop::OneWay(ones.clone(), others.clone()), Drop::OneWay(others, ones)]).await;
    }

    pub(crate) async fn heal(&self) {
        self.set_drops(&[]).await;
    }
}
