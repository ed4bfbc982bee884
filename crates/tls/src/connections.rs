//! Connection limits of a listener, shared by the gRPC, admin, metrics and gateway ports.
//!
//! A listener has a maximum number of connections, a smaller one per client address, and a reserve. When places run
//! out, a connection that has not made an authenticated call is closed for a new one, the longest idle first. So
//! clients that only hold connections cannot keep callers out.
//!
//! The lock of the table is taken when a connection opens, closes or authenticates. A call only sets a flag of its own
//! connection.

mod known_clients;
mod limit;
mod permit;
mod permit_state;
mod table;
#[cfg(test)]
mod tests;

pub use limit::{ConnectionAdmission, ConnectionLimit};
pub use permit::ConnectionPermit;
pub use table::{ConnectionLimits, ConnectionRefusal, NewConnection};
