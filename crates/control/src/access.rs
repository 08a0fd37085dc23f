//! Who may ask for what.

use std::collections::BTreeSet;

use rustix::{net::UCred, process::geteuid};
use uzers::os::unix::GroupExt;

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
    users: BTreeSet<u32>,
    /// Of processes that are in them as they connect. Only the one group that the kernel tells
    /// counts; whoever is in a group by its list of members is among the users.
    groups: BTreeSet<u32>,
}

/// A name that is that of nobody.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no {what} \"{name}\"")]
pub struct UnknownName {
    /// `user` or `group`.
    pub what: &'static str,
    /// As it was given.
    pub name: String,
}

impl Access {
    /// Has these users and groups, given by name or number, observe besides those who may operate.
    /// The user `*` is everybody who can connect.
    pub fn observing(mut self, users: &[String], groups: &[String]) -> Result<Self, UnknownName> {
        self.observe.add(users, groups)?;
        Ok(self)
    }

    /// Has these users and groups, given by name or number, operate.
    pub fn operating(mut self, users: &[String], groups: &[String]) -> Result<Self, UnknownName> {
        self.operate.add(users, groups)?;
        Ok(self)
    }

    /// What a process with these credentials may ask for, if anything.
    pub(crate) fn of(&self, peer: UCred) -> Option<Level> {
        if peer.uid.is_root() || peer.uid == geteuid() || self.operate.have(peer) {
            Some(Level::Operate)
        } else {
            self.observe.have(peer).then_some(Level::Observe)
        }
    }
}

impl People {
    fn add(&mut self, users: &[String], groups: &[String]) -> Result<(), UnknownName> {
        for name in users {
            if name == "*" {
                self.everybody = true;
                continue;
            }
            let unknown = || UnknownName { what: "user", name: name.clone() };
            let id = match name.parse() {
                Ok(id) => id,
                Err(_) => uzers::get_user_by_name(name).ok_or_else(unknown)?.uid(),
            };
            self.users.insert(id);
        }
        for name in groups {
            let unknown = || UnknownName { what: "group", name: name.clone() };
            let (id, group) = match name.parse() {
                Ok(id) => (id, uzers::get_group_by_gid(id)),
                Err(_) => {
                    let group = uzers::get_group_by_name(name).ok_or_else(unknown)?;
                    (group.gid(), Some(group))
                }
            };
            self.groups.insert(id);
            let members = group.iter().flat_map(|group| group.members());
            let members = members.filter_map(uzers::get_user_by_name);
            self.users.extend(members.map(|user| user.uid()));
        }
        Ok(())
    }

    fn have(&self, peer: UCred) -> bool {
        self.everybody
            || self.users.contains(&peer.uid.as_raw())
            || self.groups.contains(&peer.gid.as_raw())
    }
}
