#![forbid(unsafe_code)]
//! Archives from HTTP servers.
//!
//! ```text
//!              ┌─ link ─┐
//! server ──────┼─ link ─┼─ runs of chunks, put in order ─▶ RemoteReader
//!              └─ link ─┘
//! ```
//!
//! [`Remote::open`] follows redirects and asks for the first bytes. The answer decides how the rest is
//! received:
//!
//! | the server | how | after a break |
//! |---|---|---|
//! | answers ranges (Firedancer, nginx, object stores) | several links, each with a run of chunks at a time, all within a window | from the byte that is missing |
//! | does not (Agave) | one link, from front to back | from the first byte; what came before is skipped and held to the digest of what was passed on |
//!
//! A link is a thread with one connection. It receives bodies into page-aligned blocks of the reader's
//! pool, where the decoder reads them: on plain HTTP nothing is copied. Links confine themselves
//! (Landlock): they open no files and connect to nothing but the ports that are in use.
//!
//! A later run may go on in the middle: [`Remote::read_from`], with the same [`Identity`]. What a server
//! without ranges has to send again is held to what came before by [`Holding`].
//!
//! [`RemoteParts`] are parts of a file, each by a request of its own: for files of which little is needed.
//!
//! Of several servers that have archives of one name, the fastest is found by a [race](Remote::race): they
//! send the beginning at the same time, and what the winner has sent is kept. Others are measured again
//! when it becomes slow.
//!
//! Between us and a server there may be a [`Proxy`].
//!
//! What a server sends is hostile. Heads, redirects, times and rates are bounded, and the length is
//! fixed by the first answer. An object that changes under way is refused by name: two nodes' archives
//! of the same name differ in their bytes.
//!
//! Nothing here proves that an archive is what its name says. That is done as for files.

mod address;
mod connection;
mod course;
mod domain;
mod error;
mod head;
mod holding;
mod identity;
mod link;
mod look;
mod parts;
mod patience;
mod peer;
mod probe;
mod proxy;
mod race;
mod racing;
mod reader;
mod remote;
mod site;
mod watch;
mod window;

pub use address::{Address, NotAnAddress};
pub use error::FetchError;
pub use holding::{HeldRange, Holding};
pub use identity::Identity;
pub use look::{Look, Survey};
pub use parts::RemoteParts;
pub use patience::Patience;
pub use peer::{Newest, Peer};
pub use probe::Probe;
pub use proxy::{Proxies, Proxy};
pub use race::Contest;
pub use racing::{Entrant, HeadStart, RUNNERS_MAX, Raced};
pub use reader::RemoteReader;
pub use remote::{FetchOptions, Remote};
