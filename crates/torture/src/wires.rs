//! The links to one member of a Redis Cluster. Members and servers know a member by the address that it announces, and
//! each is led from there to a link of its own. So no member needs a port that another process may take while it is
//! down.

use crate::{proxy::Link, pump::Upstream};
use anyhow::Result;
use std::{net::TcpListener, path::Path};

pub(crate) struct Wires {
    /// The port that it announces to clients. Members replicate, and move keys, through this link; servers have others.
    pub(crate) port: Link,
    /// The port that it announces for the bus. It leads nowhere.
    pub(crate) announced_bus: Link,
    /// The link of each member to its bus, by the number of that member.
    pub(crate) bus: Vec<Link>,
}

impl Wires {
    /// The links to the member of this name, which listens for clients on this socket.
    pub(crate) async fn new(name: &str, socket: &Path, members: usize) -> Result<Self> {
        let port = Link::new(format!("members->{name}")).await?;
        port.route_to(Upstream::Unix(socket.to_owned()));
        let announced_bus = Link::new(format!("bus of {name}")).await?;
        let mut bus = Vec::new();
        for from in 0..members {
            bus.push(Link::new(format!("member-{from}->{name}")).await?);
        }
        Ok(Self { port, announced_bus, bus })
    }

    /// A free port for its bus, and the links to it. Another process may take the port first.
    pub(crate) fn next_bus(&self) -> Result<u16> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        self.bus.iter().for_each(|link| link.route_to(Upstream::Tcp(port)));
        Ok(port)
    }
}
