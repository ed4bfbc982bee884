//! A name server on loopback with the records of one service.

use simple_dns::rdata::{A, RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, RCODE, ResourceRecord};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

pub(crate) const SERVICE: &str = "_mesh._udp.hivemind.test";

/// Truncates responses over UDP and sends them over TCP.
#[derive(Clone)]
pub(crate) struct NameServer {
    ports: Arc<Mutex<Option<Vec<u16>>>>,
    answers: Arc<AtomicUsize>,
    failures: Arc<AtomicUsize>,
    is_denying: Arc<AtomicBool>,
    pub(crate) address: SocketAddr,
}

impl NameServer {
    pub(crate) async fn start() -> Self {
        let (listener, socket) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
                break (listener, socket);
            }
        };
        let server = Self {
            ports: Arc::default(),
            answers: Arc::default(),
            failures: Arc::default(),
            is_denying: Arc::default(),
            address: socket.local_addr().unwrap(),
        };
        tokio::spawn(server.clone().answer_datagrams(socket));
        tokio::spawn(server.clone().answer_streams(listener));
        server
    }

    /// Sets the ports of the service on this host; `None` makes queries fail.
    pub(crate) fn list(&self, ports: Option<Vec<u16>>) {
        *self.ports.lock().unwrap() = ports;
        self.is_denying.store(false, Relaxed);
    }

    /// Makes the service nonexistent.
    pub(crate) fn deny(&self) {
        self.is_denying.store(true, Relaxed);
    }

    /// Number of complete responses.
    pub(crate) fn answers(&self) -> usize {
        self.answers.load(Relaxed)
    }

    /// Number of failed queries.
    pub(crate) fn failures(&self) -> usize {
        self.failures.load(Relaxed)
    }

    async fn answer_datagrams(self, socket: UdpSocket) {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question).await {
            let _ = socket.send_to(&self.answer(&question[..length], true), from).await;
        }
    }

    async fn answer_streams(self, listener: TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Ok(length) = stream.read_u16().await else { continue };
            let mut question = vec![0; usize::from(length)];
            if stream.read_exact(&mut question).await.is_ok() {
                let answer = self.answer(&question, false);
                stream.write_u16(u16::try_from(answer.len()).unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        }
    }

    fn answer(&self, question: &[u8], is_truncated: bool) -> Vec<u8> {
        let question = Packet::parse(question).unwrap();
        let mut reply = Packet::new_reply(question.id());
        let question_name = question.questions[0].qname.to_string();
        let ports = self.ports.lock().unwrap().clone();
        match ports {
            _ if self.is_denying.load(Relaxed) => {
                self.failures.fetch_add(1, Relaxed);
                *reply.rcode_mut() = RCODE::NameError;
            }
            _ if question_name != SERVICE => *reply.rcode_mut() = RCODE::NameError,
            None => {
                self.failures.fetch_add(1, Relaxed);
                *reply.rcode_mut() = RCODE::ServerFailure;
            }
            Some(_) if is_truncated => reply.set_flags(PacketFlag::TRUNCATION),
            Some(ports) => {
                self.answers.fetch_add(1, Relaxed);
                let target = Name::new_unchecked("host.hivemind.test");
                for port in ports {
                    let srv = SRV { priority: 0, weight: 0, port, target: target.clone() };
                    let name = Name::new_unchecked(SERVICE);
                    reply.answers.push(ResourceRecord::new(name, CLASS::IN, 5, RData::SRV(srv)));
                }
                let here = RData::A(A { address: Ipv4Addr::LOCALHOST.into() });
                reply.additional_records.push(ResourceRecord::new(target, CLASS::IN, 5, here));
            }
        }
        reply.build_bytes_vec().unwrap()
    }
}
