//! Who may ask for what.

use std::{collections::BTreeSet, io, os::fd::AsFd};

use nix::{
    sys::socket::{getsockopt, sockopt::PeerCredentials},
    unistd::{Gid, Group, User, geteuid},
};

use crate::protocol::Level;

/// Who may observe, and who may operate. Root and the service's own user may do everything.
///
/// Users and groups are looked up once, when this is made: the event loop must not wait for a name
/// service. So a new member of a group has its rights after the next reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    observe: People,
    operate: People,
}

/// Users and groups by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct People {
    everybody: bool,
    /// Those named, and the members of the groups.
    users: BTreeSet<u32>,
    /// For those whose own group it is: the kernel tells no more of a peer's groups than that one.
    /// (It does by `SO_PEERGROUPS`, for which no safe interface is at hand.)
    groups: BTreeSet<u32>,
}

/// Why a list of people cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// Nobody has that name.
    #[error("there is no {what} \"{name}\"")]
    Unknown {
        /// `user` or `group`.
        what: &'static str,
        /// As it was given.
        name: String,
    },
    /// The name could not be looked up.
    #[error("cannot look up {what} \"{name}\": {source}")]
    LookUp {
        /// `user` or `group`.
        what: &'static str,
        /// As it was given.
        name: String,
        /// What the system says.
        source: nix::Error,
    },
}

/// Who is at the other end of a connection: as of when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub uid: u32,
    pub gid: u32,
}

impl Peer {
    /// As the kernel tells it.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        // Not by rustix: to it the process id of a peer, which is 0 when the peer is in a PID
        // namespace outside ours, is a number other than 0.
        let peer = getsockopt(&socket, PeerCredentials)?;
        Ok(Self { uid: peer.uid(), gid: peer.gid() })
    }
}

impl Access {
    /// Has these users and groups, given by name or number, observe besides those who may operate.
    /// The user `*` is everybody who can connect.
    pub fn observing(mut self, users: &[String], groups: &[String]) -> Result<Self, AccessError> {
        self.observe.add(users, groups)?;
        Ok(self)
    }

    /// Has these users and groups, given by name or number, operate. The user `*` is everybody who can
    /// connect.
    pub fn operating(mut self, users: &[String], groups: &[String]) -> Result<Self, AccessError> {
        self.operate.add(users, groups)?;
        Ok(self)
    }

    /// What it may ask for, if anything.
    pub(crate) fn of(&self, peer: Peer) -> Option<Level> {
        let own = peer.uid == 0 || peer.uid == geteuid().as_raw();
        if own || self.operate.have(peer) {
            Some(Level::Operate)
        } else {
            self.observe.have(peer).then_some(Level::Observe)
        }
    }
}

impl People {
    fn add(&mut self, users: &[String], groups: &[String]) -> Result<(), AccessError> {
        for name in users {
            match name.parse() {
                Ok(id) => _ = self.users.insert(id),
                Err(_) if name == "*" => self.everybody = true,
                Err(_) => {
                    let user = found("user", name, User::from_name(name))?;
                    self.users.insert(user.uid.as_raw());
                }
            }
        }
        for name in groups {
            let group = match name.parse() {
                // A number need not have a name.
                Ok(id) => {
                    self.groups.insert(id);
                    Group::from_gid(Gid::from_raw(id)).ok().flatten()
                }
                Err(_) => Some(found("group", name, Group::from_name(name))?),
            };
            let Some(group) = group else { continue };
            self.groups.insert(group.gid.as_raw());
            // Members that no longer exist are nobody.
            let members = group.mem.iter().filter_map(|name| User::from_name(name).ok().flatten());
            self.users.extend(members.map(|user| user.uid.as_raw()));
        }
        Ok(())
    }

    fn have(&self, peer: Peer) -> bool {
        self.everybody || self.users.contains(&peer.uid) || self.groups.contains(&peer.gid)
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
    const STRANGER: Peer = Peer { uid: 4_000_000_001, gid: 4_000_000_002 };

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_stranger_may_nothing_and_root_everything() {
        let access = Access::default();
        assert_eq!(access.of(STRANGER), None);
        assert_eq!(access.of(Peer { uid: 0, ..STRANGER }), Some(Level::Operate));
        let own = Peer { uid: geteuid().as_raw(), ..STRANGER };
        assert_eq!(access.of(own), Some(Level::Operate));
    }

    #[test]
    fn users_and_groups_have_the_rights_of_their_lists() {
        let number = names(&["4000000001"]);
        let observing = Access::default().observing(&number, &[]).unwrap();
        assert_eq!(observing.of(STRANGER), Some(Level::Observe));
        let operating = observing.operating(&number, &[]).unwrap();
        assert_eq!(operating.of(STRANGER), Some(Level::Operate));
        let by_group = Access::default().operating(&[], &names(&["4000000002"])).unwrap();
        assert_eq!(by_group.of(STRANGER), Some(Level::Operate));
        let other = Peer { gid: 4_000_000_003, ..STRANGER };
        assert_eq!(by_group.of(other), None);
        let everybody = Access::default().observing(&names(&["*"]), &[]).unwrap();
        assert_eq!(everybody.of(other), Some(Level::Observe));
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
        assert!(access.of(Peer { uid, ..STRANGER }).is_some());
    }
}
