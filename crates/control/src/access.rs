//! Access rights of clients.

use std::{collections::BTreeSet, io, os::fd::AsFd};

use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::{Gid, Group, User, geteuid},
};

use crate::protocol::Level;

/// The users that may observe and those that may operate. Root and the service's own user may do
/// everything.
///
/// Users and groups are looked up once, at creation: the event loop must not wait for a name
/// service. A new member of a group therefore gets its rights with the next reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    observe: Principals,
    operate: Principals,
}

/// A set of users and groups, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Principals {
    everyone: bool,
    /// Listed users, and members of the listed groups.
    users: BTreeSet<u32>,
    /// Listed groups, for users whose primary group it is: `SO_PEERCRED` reports no other group of
    /// a peer. (`SO_PEERGROUPS` would, but no safe interface to it is at hand.)
    groups: BTreeSet<u32>,
}

/// Error of a list of users and groups.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// No user or group has that name.
    #[error("there is no {what} \"{name}\"")]
    Unknown {
        /// `user` or `group`.
        what: &'static str,
        /// As it was given.
        name: String,
    },
    /// The lookup of the name failed.
    #[error("cannot look up {what} \"{name}\": {source}")]
    LookUp {
        /// `user` or `group`.
        what: &'static str,
        /// As it was given.
        name: String,
        /// The system's error.
        source: nix::Error,
    },
}

/// Credentials of the other end of a connection, as of when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub uid: u32,
    pub gid: u32,
    /// Process id, for the log only; 0 if the peer is in a PID namespace outside ours.
    pub pid: i32,
}

impl Peer {
    /// Reads the credentials from the kernel (`SO_PEERCRED`).
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        // Not by rustix: it takes the peer's process id to be nonzero, but the kernel reports 0 for
        // a peer in a PID namespace outside ours.
        let peer = getsockopt(&socket, PeerCredentials)?;
        Ok(Self { uid: peer.uid(), gid: peer.gid(), pid: peer.pid() })
    }
}

impl Access {
    /// Lets these users and groups, given by name or id, observe. The user `*` stands for everyone
    /// who can connect.
    pub fn observing(mut self, users: &[String], groups: &[String]) -> Result<Self, AccessError> {
        self.observe.add(users, groups)?;
        Ok(self)
    }

    /// Lets these users and groups, given by name or id, operate. The user `*` stands for everyone
    /// who can connect.
    pub fn operating(mut self, users: &[String], groups: &[String]) -> Result<Self, AccessError> {
        self.operate.add(users, groups)?;
        Ok(self)
    }

    /// Returns the rights of a peer; `None` if it has none.
    pub(crate) fn level_of(&self, peer: Peer) -> Option<Level> {
        let own = peer.uid == 0 || peer.uid == geteuid().as_raw();
        if own || self.operate.contains(peer) {
            Some(Level::Operate)
        } else {
            self.observe.contains(peer).then_some(Level::Observe)
        }
    }
}

impl Principals {
    fn add(&mut self, users: &[String], groups: &[String]) -> Result<(), AccessError> {
        for name in users {
            match name.parse() {
                Ok(id) => _ = self.users.insert(id),
                Err(_) if name == "*" => self.everyone = true,
                Err(_) => {
                    let user = found("user", name, User::from_name(name))?;
                    self.users.insert(user.uid.as_raw());
                }
            }
        }
        for name in groups {
            let group = match name.parse() {
                // An id need not have a name.
                Ok(id) => {
                    self.groups.insert(id);
                    Group::from_gid(Gid::from_raw(id)).ok().flatten()
                }
                Err(_) => Some(found("group", name, Group::from_name(name))?),
            };
            let Some(group) = group else { continue };
            self.groups.insert(group.gid.as_raw());
            // Members that no longer exist are skipped.
            let members = group.mem.iter().filter_map(|name| User::from_name(name).ok().flatten());
            self.users.extend(members.map(|user| user.uid.as_raw()));
        }
        Ok(())
    }

    fn contains(&self, peer: Peer) -> bool {
        self.everyone || self.users.contains(&peer.uid) || self.groups.contains(&peer.gid)
    }
}

fn found<T>(
    what: &'static str,
    name: &str,
    looked_up: nix::Result<Option<T>>,
) -> Result<T, AccessError> {
    let name = || name.to_owned();
    match looked_up {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(AccessError::Unknown { what, name: name() }),
        Err(source) => Err(AccessError::LookUp { what, name: name(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unsnap_testkit::skip::skip_unsupported;

    /// A user that neither runs tests nor is in any list.
    const STRANGER: Peer = Peer { uid: 4_000_000_001, gid: 4_000_000_002, pid: 1 };

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_stranger_may_nothing_and_root_everything() {
        let access = Access::default();
        assert_eq!(access.level_of(STRANGER), None);
        assert_eq!(access.level_of(Peer { uid: 0, ..STRANGER }), Some(Level::Operate));
        let own = Peer { uid: geteuid().as_raw(), ..STRANGER };
        assert_eq!(access.level_of(own), Some(Level::Operate));
    }

    #[test]
    fn users_and_groups_have_the_rights_of_their_lists() {
        let number = names(&["4000000001"]);
        let observing = Access::default().observing(&number, &[]).unwrap();
        assert_eq!(observing.level_of(STRANGER), Some(Level::Observe));
        let operating = observing.operating(&number, &[]).unwrap();
        assert_eq!(operating.level_of(STRANGER), Some(Level::Operate));
        let by_group = Access::default().operating(&[], &names(&["4000000002"])).unwrap();
        assert_eq!(by_group.level_of(STRANGER), Some(Level::Operate));
        let other = Peer { gid: 4_000_000_003, ..STRANGER };
        assert_eq!(by_group.level_of(other), None);
        let everyone = Access::default().observing(&names(&["*"]), &[]).unwrap();
        assert_eq!(everyone.level_of(other), Some(Level::Observe));
    }

    #[test]
    fn names_are_looked_up_and_unknown_ones_are_refused() {
        let access = Access::default().observing(&names(&["root"]), &names(&["root"])).unwrap();
        assert!(access.observe.users.contains(&0) && access.observe.groups.contains(&0));
        let error = Access::default().observing(&names(&["no-such-user"]), &[]).unwrap_err();
        assert_eq!(error.to_string(), "there is no user \"no-such-user\"");
        let error = Access::default().operating(&[], &names(&["no such group"])).unwrap_err();
        assert_eq!(error.to_string(), "there is no group \"no such group\"");
        assert!(Access::default().operating(&[], &names(&["*"])).is_err());
    }

    #[test]
    fn the_members_of_a_group_are_in_it_whatever_their_own_group_is() {
        // Any group of this machine that has a member will do.
        let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
        let member = text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (group, member) = (fields.next()?, fields.nth(2)?.split(',').next()?);
            let uid = User::from_name(member).ok()??.uid.as_raw();
            (uid != 0).then(|| (group.to_owned(), uid))
        });
        let Some((group, uid)) = member else {
            // Tests do not change the users of a machine.
            skip_unsupported("no group in /etc/group has a member");
            return;
        };
        let access = Access::default().observing(&[], &[group]).unwrap();
        assert!(access.level_of(Peer { uid, ..STRANGER }).is_some());
    }
}
